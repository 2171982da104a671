// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offline provides the commands of weir and of kubectl weir that need neither a cluster
// nor a running Weir.
//
// Read the files in this order:
//
//	commands.go   Commands: all of them
//	exit.go       exit codes
//	terminal.go   colors and progress
//	output.go     text, JSON and YAML
//	validate.go   validate
//	backtest.go   backtest
//	convert.go    convert
package offline
