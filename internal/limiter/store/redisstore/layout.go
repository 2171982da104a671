// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import "github.com/weir-dev/weir/internal/limiter/store"

// Layout of the counter keys, version 1:
//
//	<prefix>1:c:{<key>}:<namespace>/<policy>:<limit>:<algorithm>:<window>[:<bucket>][:<state>]
//	                                                  <window> is the ID of the calendar of a limit with one
//	<prefix>1:c:{<key>}:<namespace>/<policy>:sl       the log of all SlidingLog limits
//	<prefix>1:c:{<key>}:<namespace>/<policy>:sl:largest
//	                                                  the largest threshold that this log serves
//	<prefix>1:c:{<key>}:<namespace>/<policy>:block    the block, and the mark of holds, see block.lua
//	<prefix>1:c:{<key>}:<namespace>/<policy>:<limit>:escalation
//	                                                  the number of blocks that the limit has started
//	<prefix>1:c:{<key>}:<namespace>/<policy>:requested
//	                                                  the states of requested limits that refill
//	<prefix>1:c:{<key>}:<namespace>/<policy>:held     the holds, see hold.lua
//	<prefix>1:c:{<key>}:<namespace>/<policy>:held:set the set of many holds
//	<prefix>1:c:{<key>}:<namespace>/<policy>:charge!<id>
//	                                                  the ID of a charge
//	<prefix>1:c:{<namespace>/<policy>}:blocked        the list of blocks, see blocks.go
//	<prefix>1:c:{<key>}:<namespace>/<policy>+candidate:...
//	                                                  the same for the candidates of the limits
//	<prefix>1:c:{<key>}:probe                         a probe of a node that failed
//	<prefix>1:c:{<key>}:absent                        nothing; see absentKey
//
// All Redis keys for one <key> share a hash tag, so that one script may use them in a Redis
// Cluster. The names of namespaces, policies and limits are DNS names and need no
// escaping; EncodeKey escapes the key.
//
// Releases with the same layout version can share a Redis during a rollout.
const layoutVersion = "1:c:"

// probeKey and absentKey have no slash, unlike the other suffixes, which begin with <namespace>/<policy>.
const (
	probeKey = "probe"
	// absentKey is a key that each script in a cluster names and that never exists. A node rejects a script with a missing
	// key while the slot moves (TRYAGAIN). If all keys existed, it would run the script and fail in the middle of it, where
	// that uses a key that does not exist or that it has deleted.
	absentKey = "absent"
)

// listName returns the name of the set that lists the states of requested limits that refill.
func listName(policy string) string { return policy + ":requested" }

// holdSetName returns the name of the set of many holds.
func holdSetName(policy string) string { return store.HoldsName(policy) + ":set" }

// key returns the Redis key of the suffix for a key of a policy.
func (s *Store) key(key store.Key, suffix string) string {
	return string(s.appendKey(nil, key, suffix))
}

// keys returns the Redis keys of the suffixes for a key of a policy.
func (s *Store) keys(key store.Key, suffixes []string) []string {
	keys := make([]string, len(suffixes))
	for i, suffix := range suffixes {
		keys[i] = s.key(key, suffix)
	}
	return keys
}

// appendKey appends the Redis key to text.
func (s *Store) appendKey(text []byte, key store.Key, suffix string) []byte {
	text = append(append(text, s.prefix...), '{')
	text = append(append(text, key...), "}:"...)
	return append(text, suffix...)
}
