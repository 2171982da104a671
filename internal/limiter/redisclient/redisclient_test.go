// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/testenv"
)

func TestNewRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                                 `scheme "": want redis:// or rediss://`,
		"http://localhost":                 `scheme "http": want redis:// or rediss://`,
		"redis-cluster://localhost:6379":   "scheme redis-cluster:// is not supported yet",
		"redis-sentinel://localhost:26379": "scheme redis-sentinel:// is not supported yet",
		"redis://u:secret@\x7f":            "not a URL",
		"redis://u:secret@h:6379/many":     "redis://u:xxxxx@h:6379/many",
	} {
		t.Run(url, func(t *testing.T) {
			g := gomega.NewWithT(t)
			_, err := redisclient.New(url, time.Second)
			g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(want)))
			g.Expect(err.Error()).NotTo(gomega.ContainSubstring("secret"))
		})
	}
}

func TestNewConnectsWithUserPasswordAndDatabase(t *testing.T) {
	g := gomega.NewWithT(t)
	server := testenv.StartRedis(t, "--requirepass", "s3cret")
	client, err := redisclient.New("redis://default:s3cret@"+server.Addr+"/3", time.Second)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer func() { g.Expect(client.Close()).To(gomega.Succeed()) }()
	g.Expect(client.Set(t.Context(), "k", "v", 0).Err()).To(gomega.Succeed())
	g.Expect(client.Info(t.Context(), "keyspace").Val()).To(gomega.ContainSubstring("db3:keys=1"))
}
