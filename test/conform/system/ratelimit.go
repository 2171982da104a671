// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
)

// envoyRatelimit runs envoyproxy/ratelimit. The keys of one limit are nested descriptors.
type envoyRatelimit struct{ program string }

// Name implements System.
func (*envoyRatelimit) Name() string { return "envoyproxy/ratelimit" }

// Description implements System.
func (r *envoyRatelimit) Description() Description {
	return Description{
		Version: versionOf(r.program),
		Settings: []string{
			"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "with several instances and one hot key: LOCAL_CACHE_SIZE_IN_BYTES=67108864",
		},
		Windows: history.Aligned,
	}
}

// Start implements System.
func (r *envoyRatelimit) Start(ctx context.Context, env *Environment, o Options) (Cluster, error) {
	store, err := env.startRedis(ctx, o)
	if err != nil {
		return nil, err
	}
	root, err := env.newFolder()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	c := &cluster{store: store, write: func(limits []Limit) error {
		return replaceFile(filepath.Join(folder, "conform.yaml"), ratelimitConfig(limits))
	}}
	if err := c.Edit(o.Limits); err != nil {
		return nil, err
	}
	for i := range o.Instances {
		if err := r.startInstance(ctx, env, c, root, o, i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (r *envoyRatelimit) startInstance(ctx context.Context, env *Environment, c *cluster, root string, o Options, i int) error {
	var addresses [3]string
	for j := range addresses {
		var err error
		if addresses[j], err = freeAddress(); err != nil {
			return err
		}
	}
	offset, err := goOffset(r.program, o.ClockOffsets, i)
	if err != nil {
		return err
	}
	p := &Process{program: r.program, ready: dials(addresses[0]), env: append(offset,
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "USE_STATSD=false", "LOG_LEVEL=error",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT="+portOf(addresses[0]),
		"HOST=127.0.0.1", "PORT="+portOf(addresses[1]), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+portOf(addresses[2]),
	)}
	if s := c.store.sentinel; s != nil {
		p.env = append(p.env, "REDIS_TYPE=SENTINEL", "REDIS_URL="+masterName+","+strings.Join(s.addresses, ","))
	} else {
		p.env = append(p.env, "REDIS_URL="+c.store.address)
	}
	if o.Cache {
		p.env = append(p.env, "LOCAL_CACHE_SIZE_IN_BYTES=67108864")
	}
	return c.add(ctx, env, p, addresses[0], false)
}

// ratelimitConfig returns the configuration file.
func ratelimitConfig(limits []Limit) string {
	units := map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}
	var text strings.Builder
	fmt.Fprintf(&text, "domain: %s\ndescriptors:\n", domain)
	for _, limit := range limits {
		indent := "  "
		for i, key := range limit.Keys {
			fmt.Fprintf(&text, "%s- key: %q\n", indent, key)
			indent += "  "
			if i == len(limit.Keys)-1 {
				fmt.Fprintf(&text, "%srate_limit: {unit: %s, requests_per_unit: %d}\n", indent, units[limit.Window], limit.Units)
			} else {
				fmt.Fprintf(&text, "%sdescriptors:\n", indent)
				indent += "  "
			}
		}
	}
	return text.String()
}
