// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"testing"

	"github.com/fsnotify/fsnotify"
	. "github.com/onsi/gomega"
)

// Only a write may leave a policy file incomplete: what is renamed into its place is read at once.
func TestOnlyWritesOfPolicyFilesAreWaitedFor(t *testing.T) {
	g := NewWithT(t)
	event := func(name string, op fsnotify.Op) fsnotify.Event {
		return fsnotify.Event{Name: "/policies/" + name, Op: op}
	}
	for _, written := range []fsnotify.Event{
		event("a.yaml", fsnotify.Write), event("a.json", fsnotify.Write|fsnotify.Chmod), event("below/a.yml", fsnotify.Create|fsnotify.Write),
	} {
		g.Expect(isWrite(written)).To(BeTrue(), written.String())
	}
	for _, complete := range []fsnotify.Event{
		event("a.yaml", fsnotify.Create), event("a.yaml", fsnotify.Remove), event("a.yaml", fsnotify.Rename), event("..data", fsnotify.Create),
		event(".a.yaml.swp", fsnotify.Write), event("a.yaml~", fsnotify.Write), event("README.md", fsnotify.Write),
	} {
		g.Expect(isWrite(complete)).To(BeFalse(), complete.String())
	}
}
