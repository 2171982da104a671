// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Conform asks rate limiters what they admit, and judges the answers: how many units beyond a quota, how many denied
// though there was room, and how long it took. README.md documents its use.
//
// Reading order: main.go (flags), build.go (Weir), then the packages history, system, scenario and report.
package main
