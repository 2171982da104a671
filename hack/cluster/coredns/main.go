// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with only the plugins that a cluster without internet
// access needs. It resolves names of the cluster and no others.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// In the order in which they handle a request.
	dnsserver.Directives = []string{"health", "ready", "errors", "cache", "kubernetes"}
	coremain.Run()
}
