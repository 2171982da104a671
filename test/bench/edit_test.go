// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const (
	edits = 50

	// editTimeout bounds the time until an edit is enforced. It is longer than the interval at
	// which files are read without an event.
	editTimeout = 20 * time.Second
)

// compareEdits measures the time from an edit of a policy file until a decision uses it.
func compareEdits(b *testing.B, s *section) {
	b.Helper()
	var rows [][]string
	for _, policies := range []int{10, 1_000} {
		dir := policyFolder(b, policies-3)
		weir, _ := weirTargets(b, dir)
		var times []time.Duration
		for i := range edits {
			times = append(times, enforceEdit(b, weir, dir, uint32(1_000_000+i)))
		}
		m := newSample(time.Second, times)
		rows = append(rows, []string{strconv.Itoa(policies), inMillis(latency(0.5)(m)), inMillis(latency(0.99)(m)), inMillis(latency(1)(m))})
	}
	s.table(fmt.Sprintf("%d edits of a threshold, one caller", edits), []string{"policies", "p50", "p99", "longest"}, rows...)
	s.note("`weir standalone` watches the folder and, once the files have been unchanged for 50 ms, reads all\n" +
		"of them and parses the changed ones. In Kubernetes a replica receives only the edited policy, without a\n" +
		"wait: see the last columns under [Scale](#scale).")
}

const editedPolicy = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: edited, namespace: bench}
spec:
  matches: [{domain: bench, descriptors: [{key: edited}]}]
  key: [{type: Descriptor, descriptor: {key: edited}}]
  limits: [{name: all, algorithm: FixedWindow, threshold: %d, window: 1h}]
`

// enforceEdit sets the threshold in the folder and returns the time until a decision uses it.
func enforceEdit(b *testing.B, weir *target, dir string, threshold uint32) time.Duration {
	b.Helper()
	g := NewWithT(b)
	client := newClient(b, weir.address)
	request := keysOf("", "edited", 1).grpc[0]
	// A rename, so that no incomplete file is read.
	edited := filepath.Join(b.TempDir(), "edited")
	g.Expect(os.WriteFile(edited, fmt.Appendf(nil, editedPolicy, threshold), 0o600)).To(Succeed())
	start := time.Now()
	g.Expect(os.Rename(edited, filepath.Join(dir, "edited.yaml"))).To(Succeed())
	for time.Since(start) < editTimeout {
		response, err := client.ShouldRateLimit(b.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		if response.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit() == threshold {
			return time.Since(start)
		}
	}
	b.Fatalf("the edit was not enforced within %v", editTimeout)
	return 0
}
