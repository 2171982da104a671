// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/testenv"
)

// A server that became a replica may be behind a name that leads to another server by now.
func TestReadOnlyReplyClosesTheConnections(t *testing.T) {
	t.Parallel()
	const caught = `return {redis.pcall("INCR", KEYS[1]).err, "other"}`
	for name, send := range map[string]func(client redis.UniversalClient) error{
		"as the reply":              func(client redis.UniversalClient) error { return client.Incr(t.Context(), "k").Err() },
		"in the reply":              func(client redis.UniversalClient) error { return client.Eval(t.Context(), caught, []string{"k"}).Err() },
		"in the error of a command": func(client redis.UniversalClient) error { return client.Do(t.Context(), "EVAL", caught, 1, "k").Err() },
		"in a pipeline": func(client redis.UniversalClient) error {
			_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Eval(t.Context(), caught, []string{"k"}).Err() })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			client := newClient(t, testenv.StartRedis(t, "--replicaof", "127.0.0.1 1").URL, commandTimeout)
			id := func() int64 { return client.ClientID(t.Context()).Val() }
			before := id()
			g.Expect(id()).To(Equal(before), "one connection")
			_ = send(client)
			g.Expect(id()).NotTo(Equal(before))
		})
	}
}

func TestTooManyClientsHasItsError(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://", "redis://user:password@"} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server := testenv.StartRedis(t)
			admin := newClient(t, server.URL, commandTimeout)
			g.Expect(admin.ConfigSet(t.Context(), "maxclients", "1").Err()).To(Succeed())
			g.Expect(newClient(t, url+server.Addr, commandTimeout).Ping(t.Context()).Err()).
				To(MatchError(ContainSubstring("max number of clients reached")))
		})
	}
}
