// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import "slices"

// programmed returns the revision since which the wanted plan of that id is in
// the registry, and false if it is not.
func (p *Publisher) programmed(id string) (revision int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revisionOf(id)
}

// replicas returns the live replicas of the installation by name, as they were
// within the last second, and what Err returns.
func (p *Publisher) replicas() ([]Replica, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped != nil {
		return nil, p.stopped
	}
	return slices.Clone(p.seen.replicas), p.seen.err
}
