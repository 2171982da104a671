// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
)

// weir runs Weir without Kubernetes, with one policy a limit.
type weir struct{ program, algorithm string }

// Name implements System.
func (w *weir) Name() string {
	if w.algorithm == "SlidingLog" {
		return "weir"
	}
	return "weir, " + w.algorithm
}

// Description implements System.
func (w *weir) Description() Description {
	d := Description{
		Version: weirVersion(w.program),
		Settings: []string{
			"algorithm: " + w.algorithm, "failureMode: Closed", "--store-timeout 1s, but as shipped where the store hangs",
			"with 1,000,000 keys: --new-keys-per-minute 0 --new-keys-per-window 0",
		},
		Windows: history.Rolling,
	}
	if w.algorithm == "FixedWindow" {
		d.Windows = history.Anchored
	}
	return d
}

// Start implements System.
func (w *weir) Start(ctx context.Context, env *Environment, o Options) (Cluster, error) {
	store, err := env.startRedis(ctx, o)
	if err != nil {
		return nil, err
	}
	folder, err := env.newFolder()
	if err != nil {
		return nil, err
	}
	c := &cluster{store: store, write: func(limits []Limit) error {
		return replaceFile(filepath.Join(folder, "policies.yaml"), w.policies(limits))
	}}
	if err := c.Edit(o.Limits); err != nil {
		return nil, err
	}
	for i := range o.Instances {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		offset, err := goOffset(w.program, o.ClockOffsets, i)
		if err != nil {
			return nil, err
		}
		p := &Process{program: w.program, env: offset, ready: dials(address), args: []string{
			"standalone", "--policies", folder, "--redis-url", store.url(),
			"--grpc-address", address, "--http-address", "", "--operator-address", "", "--metrics-address", "",
		}}
		if !o.AsShipped {
			p.args = append(p.args, "--store-timeout", "1s")
		}
		if o.Keys > 0 {
			p.args = append(p.args, "--new-keys-per-minute", "0", "--new-keys-per-window", "0")
		}
		if err := c.add(ctx, env, p, address, false); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// policies returns one policy a limit.
func (w *weir) policies(limits []Limit) string {
	var text strings.Builder
	for i, limit := range limits {
		var matches, parts []string
		for _, key := range limit.Keys {
			matches = append(matches, fmt.Sprintf("{key: %q}", key))
			parts = append(parts, fmt.Sprintf("{type: Descriptor, descriptor: {key: %q}}", key))
		}
		fmt.Fprintf(&text, `---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: limit-%d, namespace: conform}
spec:
  failureMode: Closed
  matches: [{domain: %s, descriptors: [%s]}]
  key: [%s]
  limits: [{name: all, algorithm: %s, threshold: %d, window: %s}]
`, i, domain, strings.Join(matches, ", "), strings.Join(parts, ", "), w.algorithm, limit.Units, inHours(limit.Window))
	}
	return text.String()
}

// inHours formats a window without units of 0.
func inHours(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

// replaceFile replaces a file in one step, so that no reader sees a part of it.
func replaceFile(path, text string) error {
	temporary := filepath.Join(filepath.Dir(path), ".new")
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// weirVersion returns the version that the program prints.
func weirVersion(program string) string {
	output, err := exec.Command(program, "version").Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(output), "\n")
	return strings.TrimPrefix(line, "weir ")
}
