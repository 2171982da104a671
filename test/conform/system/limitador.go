// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
)

// limitador runs Kuadrant's Limitador on Redis. Its limits read one descriptor, so the entries of all descriptors of a
// request are in one.
type limitador struct {
	program string
	cached  bool // counters in memory, written to Redis later
}

// Name implements System.
func (l *limitador) Name() string {
	if l.cached {
		return "Limitador, redis_cached"
	}
	return "Limitador, redis"
}

// Description implements System.
func (l *limitador) Description() Description {
	version, err := exec.Command(l.program, "--version").Output()
	if err != nil {
		version = []byte("unknown")
	}
	return Description{
		Version: strings.TrimSpace(string(version)), Windows: history.Anchored,
	}
}

// Start implements System.
func (l *limitador) Start(ctx context.Context, env *Environment, o Options) (Cluster, error) {
	if o.Sentinel {
		return nil, fmt.Errorf("sentinels of Redis: %w", ErrUnsupported)
	}
	store, err := env.startRedis(ctx, o)
	if err != nil {
		return nil, err
	}
	folder, err := env.newFolder()
	if err != nil {
		return nil, err
	}
	c := &cluster{store: store, write: func(limits []Limit) error { return mountLimits(folder, limitadorLimits(limits)) }}
	if err := c.Edit(o.Limits); err != nil {
		return nil, err
	}
	for i := range o.Instances {
		if err := l.startInstance(ctx, env, c, filepath.Join(folder, limitsFile), o, i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (l *limitador) startInstance(ctx context.Context, env *Environment, c *cluster, file string, o Options, i int) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	http, err := freeAddress()
	if err != nil {
		return err
	}
	storage := "redis"
	if l.cached {
		storage = "redis_cached"
	}
	p := &Process{program: l.program, ready: dials(address), args: []string{
		"--rls-ip", "127.0.0.1", "--rls-port", portOf(address), "--http-ip", "127.0.0.1", "--http-port", portOf(http),
		file, storage, c.store.url(),
	}}
	if len(o.ClockOffsets) > 0 {
		moved, environment, err := env.newClock()
		if err != nil {
			return err
		}
		moved.Move(o.ClockOffsets[i])
		p.env = environment
	}
	return c.add(ctx, env, p, address, true)
}

const limitsFile = "limits.yaml"

// mountLimits writes the file as the kubelet updates a ConfigMap: Limitador reads its limits again if its file is reached by
// another link, but not if the file itself is replaced.
func mountLimits(folder, text string) error {
	revision, err := os.MkdirTemp(folder, "revision-")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(revision, limitsFile), []byte(text), 0o600); err != nil {
		return err
	}
	current, next := filepath.Join(folder, "..data"), filepath.Join(folder, "..next")
	if err := os.Symlink(revision, next); err != nil {
		return err
	}
	if err := os.Rename(next, current); err != nil {
		return err
	}
	err = os.Symlink(filepath.Join(current, limitsFile), filepath.Join(folder, limitsFile))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// limitadorLimits returns the limits file.
func limitadorLimits(limits []Limit) string {
	var text strings.Builder
	for _, limit := range limits {
		var conditions, variables []string
		for _, key := range limit.Keys {
			conditions = append(conditions, fmt.Sprintf("%q", fmt.Sprintf("%q in descriptors[0]", key)))
			variables = append(variables, fmt.Sprintf("%q", fmt.Sprintf("descriptors[0][%q]", key)))
		}
		fmt.Fprintf(&text, "- namespace: %s\n  max_value: %d\n  seconds: %d\n  conditions: [%s]\n  variables: [%s]\n",
			domain, limit.Units, limit.Window/time.Second, strings.Join(conditions, ", "), strings.Join(variables, ", "))
	}
	return text.String()
}
