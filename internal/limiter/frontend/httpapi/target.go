// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// target is the key that a state call names.
type target struct {
	policy   string
	key      []string      // nil for the shared budget of a policy without a key
	keyHash  string        // of a listed key, in place of key; empty if not given
	all      bool          // all listed keys are meant
	asGiven  bool          // the key may be one that no request can have
	shared   bool          // requests lack the empty parts of the key, all without key
	duration time.Duration // of a block
}

// validate checks what does not depend on the policy. The engine validates the rest, after
// the caller is authorized.
func (t *target) validate() error {
	if problem := policyNameProblem(t.policy, nil); problem != "" {
		return inField("policy", invalid(problem))
	}
	switch {
	case t.keyHash != "" && t.key != nil:
		return inField("keyHash", invalid("cannot be given with key"))
	case t.all && (t.keyHash != "" || t.key != nil):
		return inField("all", invalid("cannot be given with a key"))
	case t.asGiven && t.key == nil:
		return inField("asGiven", invalid("needs key"))
	}
	return t.validateShared()
}

// validateShared rejects empty parts of a key without shared, and shared beside other names of keys.
func (t *target) validateShared() error {
	if i := slices.Index(t.key, ""); i >= 0 && !t.shared {
		return inField(fmt.Sprintf("key[%d]", i), invalid("must not be empty; shared accepts a part that requests lack"))
	}
	if t.shared && (t.keyHash != "" || t.all || t.asGiven) {
		return inField("shared", invalid("cannot be given with keyHash, all or asGiven"))
	}
	return nil
}

// name returns the name of the key.
func (t *target) name() limiter.KeyName {
	return limiter.KeyName{Parts: t.key, Hash: t.keyHash, Shared: t.shared}
}

// validateHash rejects what no key has as a hash.
func validateHash(text string) error {
	if hash, err := hex.DecodeString(text); err != nil || len(hash) != 8 || text != strings.ToLower(text) {
		return invalid("must be the keyHash of a listed key: 16 digits 0-9a-f")
	}
	return nil
}

// targetOfQuery reads policy, key (once per part) with asGiven or shared, or keyHash and, for overrides that select
// by them, remoteAddress and principal. Errors are *limiter.FieldError.
func targetOfQuery(text string) (t target, a plan.Attributes, err error) {
	err = readQuery(text, func(name string, values []string) error { return readStateParameter(&t, &a, name, values) })
	if err == nil {
		err = t.validate()
	}
	return t, a, err
}

func readStateParameter(t *target, a *plan.Attributes, name string, values []string) (err error) {
	if name != "key" && len(values) > 1 {
		return invalid("occurs twice")
	}
	switch name {
	case "policy":
		t.policy = values[0]
	case "key":
		t.key = values
	case "keyHash":
		t.keyHash = values[0]
		return validateHash(t.keyHash)
	case "remoteAddress":
		if a.RemoteAddress, err = netip.ParseAddr(values[0]); err != nil {
			return invalid("must be an IPv4 or IPv6 address")
		}
	case "principal":
		a.Principal = values[0]
	case "asGiven":
		t.asGiven, err = readBoolean(values[0])
	case "shared":
		t.shared, err = readBoolean(values[0])
	default:
		return invalid("is not a known parameter")
	}
	return err
}

func readBoolean(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, invalid("must be true or false")
	}
	return text == "true", nil
}

// partProblem returns why no key has the part; a part that requests lack is empty.
func partProblem(part string) string {
	if part == "" {
		return ""
	}
	return limiter.KeyProblem(part)
}

// decodeTarget parses {"policy", "key", "asGiven", "shared"} or {"policy", "keyHash"} and, by the verb, "duration" of a block or
// "all" in place of a key. It overwrites the body. Errors are *limiter.FieldError.
func decodeTarget(body []byte, verb Verb) (t target, err error) {
	given := false
	err = readMembers(body, func(r *reader, name string) error {
		given = given || name == "duration"
		return t.readMember(r, name, verb)
	})
	if err == nil {
		err = t.validate()
	}
	if err == nil && verb == VerbBlock && !given {
		err = inField("duration", invalid("is required"))
	}
	return t, err
}

func (t *target) readMember(r *reader, name string, verb Verb) (err error) {
	switch {
	case name == "policy":
		t.policy, err = r.text()
	case name == "key":
		t.key, err = r.key(nil, partProblem)
	case name == "keyHash":
		if t.keyHash, err = r.text(); err == nil {
			err = validateHash(t.keyHash)
		}
	case name == "duration" && verb == VerbBlock:
		t.duration, err = r.duration()
	case name == "asGiven":
		t.asGiven, err = r.boolean()
	case name == "shared":
		t.shared, err = r.boolean()
	case name == "all" && verb == VerbUnblock:
		t.all, err = r.boolean()
	default:
		err = unknown()
	}
	return err
}

func (r *reader) duration() (time.Duration, error) {
	text, err := r.text()
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, invalid(cmp.Or(duration.Hint(text), "must be a duration such as 10m or 1h30m"))
	}
	return d, nil
}
