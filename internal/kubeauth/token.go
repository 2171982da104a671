// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeauth

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// forAudience reports whether the token is a JSON Web Token that claims the audience. It
// verifies nothing: it only spares the API server tokens that it would not accept for Weir.
func forAudience(token, audience string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var claims struct {
		Audience audiences `json:"aud"`
	}
	return json.Unmarshal(payload, &claims) == nil && slices.Contains(claims.Audience, audience)
}

// audiences is the claim aud, a string or a list of strings (RFC 7519, section 4.1.3).
type audiences []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audiences) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}
