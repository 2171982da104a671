// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forwarded says what is believed of the headers that proxies send about
// the requests of their clients, and whose.
package forwarded
