// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"sync/atomic"
)

// Installation is the installation that a process belongs to. All Writers and Watchers of
// one installation share a registry; processes of another one do not use it. It is safe for
// concurrent use.
type Installation struct {
	was  string
	name atomic.Pointer[string]
}

// NewInstallation returns the installation with that name, which contains no slash. An empty
// name is not known yet: see Resolve. If was is not empty, the installation has been renamed
// and still accepts the registry of its former name.
func NewInstallation(name, was string) *Installation {
	i := &Installation{was: was}
	if name != "" {
		i.Resolve(name)
	}
	return i
}

// Resolve sets the name, once it is known.
func (i *Installation) Resolve(name string) { i.name.Store(&name) }

// Name returns the name, or "" while it is not known.
func (i *Installation) Name() string {
	if name := i.name.Load(); name != nil {
		return *name
	}
	return ""
}

// names returns the names whose registry the installation accepts, its own first; none while
// its name is not known.
func (i *Installation) names() []string {
	name := i.Name()
	switch {
	case name == "":
		return nil
	case i.was == "" || i.was == name:
		return []string{name}
	default:
		return []string{name, i.was}
	}
}

// accepts reports whether the installation accepts the registry of that owner.
func (i *Installation) accepts(owner string) bool { return slices.Contains(i.names(), owner) }
