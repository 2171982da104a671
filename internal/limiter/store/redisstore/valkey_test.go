// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build valkey

package redisstore

import "github.com/weir-dev/weir/test/testenv"

func init() {
	servers = append(servers, server{"valkey", testenv.StartValkey, testenv.StartValkeyWithClock})
}
