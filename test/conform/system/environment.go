// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Environment is the folder, the addresses and the processes of one scenario.
type Environment struct {
	folder string

	mu      sync.Mutex
	folders int
	closers []func() error
}

// NewEnvironment returns an environment in a new temporary folder.
func NewEnvironment() (*Environment, error) {
	folder, err := os.MkdirTemp("", "conform-")
	return &Environment{folder: folder}, err
}

// Close stops all processes, the last one first, and removes the folder.
func (e *Environment) Close() error {
	e.mu.Lock()
	closers := e.closers
	e.closers = nil
	e.mu.Unlock()
	var errs []error
	for _, closer := range slices.Backward(closers) {
		errs = append(errs, closer())
	}
	return errors.Join(append(errs, os.RemoveAll(e.folder))...)
}

// onClose runs the function when the environment is closed.
func (e *Environment) onClose(closer func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closers = append(e.closers, closer)
}

// newFolder returns a new folder.
func (e *Environment) newFolder() (string, error) {
	e.mu.Lock()
	e.folders++
	folder := filepath.Join(e.folder, strconv.Itoa(e.folders))
	e.mu.Unlock()
	return folder, os.Mkdir(folder, 0o700)
}

// ports is where the search for a free port continues. Ports below 32768 are not given to outgoing connections.
var ports = struct {
	sync.Mutex
	next int
}{next: 20000 + os.Getpid()%50*200}

// freeAddress returns an address on loopback on which nothing listens.
func freeAddress() (string, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 10_000 {
		ports.next++
		if ports.next >= 32_000 {
			ports.next = 20_000
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.next))
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", errors.New("no free port between 20000 and 32000")
}

// portOf returns the port of host:port.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
