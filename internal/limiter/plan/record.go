// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "strings"

// Record is what the registry carries from the leader to the replicas: a *Plan, a *KeyGroup or an *Exception. It is
// immutable once it is published.
type Record interface {
	// ID is the name of the record in the registry: see KindOf.
	ID() string
	// Source returns the UID and the generation of the object from which the record was compiled.
	Source() (uid string, generation int64)
	// Validate checks the invariants that the decision half relies on and returns all violations, joined.
	Validate() error

	// sizeLimit is the size of the largest encoding, in bytes.
	sizeLimit() int
}

// Kind is a kind of records.
type Kind string

// The kinds of records, as the name of their member in an encoding.
const (
	KindPlan      Kind = "plan"
	KindKeyGroup  Kind = "keyGroup"
	KindException Kind = "exception"
)

// The IDs of plans have no prefix. No name has a colon, so the IDs of records of several kinds differ.
const (
	keyGroupPrefix  = "keygroup:"
	exceptionPrefix = "exception:"
)

// KindOf returns the kind of the record with the ID.
func KindOf(id string) Kind {
	switch {
	case strings.HasPrefix(id, keyGroupPrefix):
		return KindKeyGroup
	case strings.HasPrefix(id, exceptionPrefix):
		return KindException
	default:
		return KindPlan
	}
}

// IDOf returns the ID of the record of that kind, of the object with the name.
func IDOf(kind Kind, namespace, name string) string {
	id := namespace + "/" + name
	switch kind {
	case KindKeyGroup:
		return keyGroupPrefix + id
	case KindException:
		return exceptionPrefix + id
	default:
		return id
	}
}

// SplitID returns the Namespace and the name of the object with that ID.
func SplitID(id string) (namespace, name string) {
	if _, rest, prefixed := strings.Cut(id, ":"); prefixed {
		id = rest
	}
	namespace, name, _ = strings.Cut(id, "/")
	return namespace, name
}
