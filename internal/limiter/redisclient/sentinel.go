// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// sentinelPort is the default port of a sentinel.
	sentinelPort = "26379"

	// masterTimeout bounds one attempt to connect to the master. Attempts that wait for a
	// master that is gone must not occupy the whole pool when another one takes over. It is longer than
	// the second after which TCP tries again: a new master may drop attempts while all clients connect.
	masterTimeout = 1200 * time.Millisecond
)

// newSentinel returns a client of the master that the sentinels name. A new connection
// asks the sentinels for the master, or uses answers of the last moments, and is used only if that server reports the role of a
// master. The client of the library is not used, because it keeps the password of the
// sentinels and does not check the role:
// https://redis.io/docs/latest/develop/reference/sentinel-clients/.
func newSentinel(parsed *url.URL, timeout time.Duration, files Files) (redis.UniversalClient, error) {
	options, master, addrs, err := parseSentinel(parsed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redacted(parsed), err)
	}
	if options.TLSConfig != nil {
		options.TLSConfig.ServerName = "" // the host of each connection
	}
	connections := newConnections(files, options.TLSConfig)
	s := newSentinels(master, addrs, connections, newSentinelClient(files, options.TLSConfig))
	connections.first, connections.last = s.startWatch, s.stopWatch
	overwrite(options, fixedOptions(files, s.dialMaster, timeout))
	options.Addr = master // only for messages: dialMaster asks the sentinels for the address
	options.OnConnect = s.requireMaster
	client := redis.NewClient(options)
	client.AddHook(dropReadOnly{connections})
	HideReplies(client)
	return client, nil
}

// parseSentinel returns the options of the data nodes, the name of the master and the
// addresses of the sentinels.
func parseSentinel(parsed *url.URL) (options *redis.Options, master string, addrs []string, err error) {
	master, database, _ := strings.Cut(strings.TrimPrefix(parsed.Path, "/"), "/")
	if master == "" {
		return nil, "", nil, errors.New("want the name of the master after the address: redis-sentinel://host:port/master")
	}
	if parsed.Hostname() == "" {
		return nil, "", nil, errors.New("want the address of a sentinel")
	}
	port := cmp.Or(parsed.Port(), sentinelPort)
	query := parsed.Query()
	addrs = append([]string{net.JoinHostPort(parsed.Hostname(), port)}, query["addr"]...)
	if err := checkAddresses(query["addr"]); err != nil {
		return nil, "", nil, err
	}
	query.Del("addr")
	single := *parsed
	single.Scheme = strings.TrimSuffix(parsed.Scheme, "-sentinel")
	single.Path = "/" + database
	single.RawPath, single.RawQuery = "", query.Encode()
	options, err = redis.ParseURL(single.String())
	return options, master, addrs, err
}

// newSentinelClient returns a function that creates the client of one sentinel. The
// credentials and certificates of the files are read for each connection.
func newSentinelClient(files Files, base *tls.Config) func(addr string) *redis.SentinelClient {
	connections := newConnections(files, base)
	fixed := fixedOptions(files.ofSentinels(), connections.dial, askTimeout)
	return func(addr string) *redis.SentinelClient {
		options := &redis.Options{Addr: addr}
		overwrite(options, fixed)
		client := redis.NewSentinelClient(options)
		client.AddHook(hideReplies{})
		return client
	}
}

// notMasterError is the error of a connection to a server that the sentinels name as master
// and that is none. It has the code of the error that this server would return, and no
// command has been sent.
type notMasterError struct{ name, addr string }

// Error implements error.
func (e *notMasterError) Error() string {
	return fmt.Sprintf("READONLY the sentinels name %s as master %q, but it is a replica", e.addr, e.name)
}

// RedisError implements redis.Error.
func (*notMasterError) RedisError() {}

// dialMaster connects to the server that the sentinels name at present. The address, which
// the library passes on from its options, is not used.
func (s *sentinels) dialMaster(ctx context.Context, network, _ string) (net.Conn, error) {
	addr, err := s.locate(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, masterTimeout)
	defer cancel()
	opened, err := s.connections.dial(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("master %q at %s: %w", s.master, addr, err)
	}
	return opened, nil
}

// requireMaster returns an error unless the server of the connection is a master. It reads
// the role from the reply to HELLO because ROLE, in the category @dangerous, may be forbidden.
func (s *sentinels) requireMaster(ctx context.Context, connection *redis.Conn) error {
	hello := redis.NewMapStringInterfaceCmd(ctx, "HELLO", 2)
	if err := connection.Process(ctx, hello); err != nil {
		return fmt.Errorf("role of the master %q: %w", s.master, err)
	}
	role, _ := hello.Val()["role"].(string)
	if role == "master" {
		return nil
	}
	addr, err := s.choose(nil)
	if err != nil {
		return err
	}
	return &notMasterError{name: s.master, addr: addr}
}
