// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command clock prints the time in milliseconds. TestOverlay runs it with other clocks.
package main

import "time"

func main() { println(time.Now().UnixMilli()) }
