// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import "net/url"

// Target names the key of a state call, and is the body of the calls that change one.
type Target struct {
	Policy string   `json:"policy"`
	Key    []string `json:"key,omitempty"`
	// KeyHash is in place of Key.
	KeyHash string `json:"keyHash,omitempty"`
	// AsGiven accepts a key that no request can have.
	AsGiven bool `json:"asGiven,omitempty"`
	// Shared names the requests that lack the empty parts of Key, or every part without Key.
	Shared bool `json:"shared,omitempty"`
	// Duration is the length of a block.
	Duration string `json:"duration,omitempty"`
	// All stands for all listed keys, in place of a key.
	All bool `json:"all,omitempty"`
}

// Query returns the key as parameters of GET /v1/state. The client address and the principal select
// an override; empty ones are left out.
func (t *Target) Query(remoteAddress, principal string) url.Values {
	query := url.Values{"policy": {t.Policy}}
	if len(t.Key) > 0 {
		query["key"] = t.Key
	}
	if t.AsGiven {
		query.Set("asGiven", "true")
	}
	if t.Shared {
		query.Set("shared", "true")
	}
	for name, value := range map[string]string{"keyHash": t.KeyHash, "remoteAddress": remoteAddress, "principal": principal} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}
