// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// RejectingRedis is a server that accepts every connection and answers every command with one reply.
type RejectingRedis struct {
	// Addr is the address of the server, host:port.
	Addr string

	mu    sync.Mutex
	reply string
}

// StartRejectingRedis starts a server that answers every command with the reply, such as "-ERR no\r\n",
// and stops it when the test ends.
func StartRejectingRedis(tb testing.TB, reply string) *RejectingRedis {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &RejectingRedis{Addr: listener.Addr().String(), reply: reply}
	var serving sync.WaitGroup
	var mu sync.Mutex
	var connections []net.Conn
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // closed
			}
			mu.Lock()
			connections = append(connections, connection)
			mu.Unlock()
			serving.Go(func() { r.serve(connection) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, connection := range connections {
			_ = connection.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return r
}

// SetReply changes the reply to the next commands.
func (r *RejectingRedis) SetReply(reply string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply = reply
}

// serve answers the commands of a connection until it ends.
func (r *RejectingRedis) serve(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	commands := bufio.NewReader(connection)
	for skipCommand(commands) == nil {
		r.mu.Lock()
		reply := r.reply
		r.mu.Unlock()
		if _, err := io.WriteString(connection, reply); err != nil {
			return
		}
	}
}

// skipCommand reads one command: https://redis.io/docs/latest/develop/reference/protocol-spec/.
func skipCommand(commands *bufio.Reader) error {
	length, err := readLength(commands)
	for range length {
		size, sizeErr := readLength(commands)
		if sizeErr != nil {
			return sizeErr
		}
		if _, err = commands.Discard(size + len("\r\n")); err != nil {
			return err
		}
	}
	return err
}

// readLength reads the line with the length of an array or a string.
func readLength(commands *bufio.Reader) (int, error) {
	line, err := commands.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
