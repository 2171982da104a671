// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

const masterName = "conform"

// sentinels are a replica of a master, and three sentinels that watch both.
type sentinels struct {
	replica   *redisServer
	addresses []string
	clients   []*redis.Client
}

// startSentinels starts a replica and the sentinels, and returns when they know each other.
func (e *Environment) startSentinels(ctx context.Context, master *redisServer) (*sentinels, error) {
	host, port := "127.0.0.1", portOf(master.address)
	replica, err := e.startRedisServer(ctx, "--save", "", "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	if err != nil {
		return nil, err
	}
	s := &sentinels{replica: replica}
	for range 3 {
		if err := s.start(ctx, e, host, port); err != nil {
			return nil, err
		}
	}
	if err := awaitInfo(ctx, master.client, "replication", "state=online"); err != nil {
		return nil, err
	}
	return s, s.await(ctx, fmt.Sprintf("status=ok,address=%s,slaves=1,sentinels=3", master.address))
}

func (s *sentinels) start(ctx context.Context, e *Environment, host, port string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	folder, err := e.newFolder()
	if err != nil {
		return err
	}
	config := filepath.Join(folder, "sentinel.conf") // the sentinel rewrites it
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 5000\n",
		portOf(address), folder, masterName, host, port, masterName, masterName)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	e.onClose(client.Close)
	s.addresses, s.clients = append(s.addresses, address), append(s.clients, client)
	err = e.startProcess(ctx, &Process{
		program: "redis-server", args: []string{config, "--sentinel"},
		ready: func(ctx context.Context) error { return client.Ping(ctx).Err() },
	})
	if err != nil {
		return err
	}
	// Sentinels find each other and the replica sooner than by default.
	for period, millis := range map[string]int{"PUBLISH-PERIOD": 500, "INFO-PERIOD": 1000} {
		if err := client.Do(ctx, "SENTINEL", "DEBUG", period, millis).Err(); err != nil {
			return err
		}
	}
	return nil
}

// await waits until every sentinel reports the text.
func (s *sentinels) await(ctx context.Context, text string) error {
	for _, client := range s.clients {
		if err := awaitInfo(ctx, client, "sentinel", text); err != nil {
			return err
		}
	}
	return nil
}

// awaitInfo waits until a section of INFO contains the text.
func awaitInfo(ctx context.Context, client *redis.Client, section, text string) error {
	return await(ctx, nil, func(ctx context.Context) error {
		info, err := client.Info(ctx, section).Result()
		if err == nil && !strings.Contains(info, text) {
			err = fmt.Errorf("INFO %s does not report %s\n%s", section, text, info)
		}
		return err
	})
}

// url returns the address as Weir takes it.
func (s *sentinels) url() string {
	return "redis-sentinel://" + s.addresses[0] + "/" + masterName + "?addr=" + strings.Join(s.addresses[1:], "&addr=")
}
