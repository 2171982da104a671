// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/testenv"
)

// secret stands for a key of a client, which no error may contain.
const secret = "sk-live-4711"

// rejections maps each reply of Redis that quotes an argument to the text of the error, which does not.
var rejections = map[string]string{
	"-ERR unknown command 'EVALSHA', with args beginning with: '" + secret + "' \r\n":      "ERR unknown command",
	"-ERR unknown subcommand '" + secret + "'. Try SCRIPT HELP.\r\n":                       "ERR unknown subcommand",
	"-ERR wrong number of arguments for '" + secret + "' command\r\n":                      "ERR wrong number of arguments",
	"-ERR syntax error near '" + secret + "'\r\n":                                          "ERR the server rejected the command",
	"-ERR Error running script (call to f_1): @user_script:1: " + secret + "\r\n":          "ERR the script failed",
	"-ERR Error running script (call to f_1): @user_script:1: -OOM no, " + secret + "\r\n": "OOM the server has reached maxmemory",
	"-@user_script: 12: -READONLY You can't write " + secret + "\r\n":                      "READONLY the server is a replica",
	"-READONLY You can't write " + secret + "\r\n":                                         "READONLY the server is a replica",
	"-NOPERM No permissions to access a key '" + secret + "'\r\n":                          "NOPERM the ACL of the user",
	"-WRONGPASS invalid username-password pair " + secret + "\r\n":                         "WRONGPASS the user or the password is wrong",
	"-WRONGTYPE Operation against the key " + secret + "\r\n":                              "WRONGTYPE a key holds",
	"-NOSCRIPT No matching script " + secret + "\r\n":                                      "NOSCRIPT the server does not have this script",
	"-CLUSTERDOWN Hash slot not served " + secret + "\r\n":                                 "CLUSTERDOWN the cluster is down",
	"-TRYAGAIN Multiple keys " + secret + "\r\n":                                           "TRYAGAIN the keys",
	"-PROXY cannot forward " + secret + "\r\n":                                             "PROXY the server rejected the command",
	"-" + secret + "\r\n": "ERR the server rejected the command",
	"?" + secret + "\r\n": "the reply cannot be read",
	":" + secret + "\r\n": "the reply cannot be read",
	"$" + secret + "\r\n": "the reply cannot be read",
	"*" + secret + "\r\n": "the reply cannot be read",
}

// The errors of a single server, of a cluster and of sentinels contain a text of Weir in place of the
// server's.
func TestErrorsHideReplies(t *testing.T) {
	t.Parallel()
	server := testenv.StartRejectingRedis(t, "")
	for _, scheme := range []string{"redis://%s", "redis-cluster://%s", "redis-sentinel://%s/main"} {
		for reply, want := range rejections {
			t.Run(scheme+" "+want, func(t *testing.T) {
				g := NewWithT(t)
				server.SetReply(reply)
				client, err := New(fmt.Sprintf(scheme, server.Addr), time.Minute)
				g.Expect(err).NotTo(HaveOccurred())
				defer func() { _ = client.Close() }()
				pipelined, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
					p.Get(t.Context(), "a")
					p.Get(t.Context(), "a")
					return nil
				})
				errs := []error{err, client.Get(t.Context(), "a").Err(), redis.NewScript("return 1").Run(t.Context(), client, []string{"a"}).Err()}
				for _, err := range errs {
					// After READONLY the client closes its connections; the library has a NOSCRIPT of its own.
					g.Expect(err).To(MatchError(Or(ContainSubstring(want), ContainSubstring("use of closed network connection"), HavePrefix("NOSCRIPT "))))
				}
				for _, cmd := range pipelined {
					errs = append(errs, cmd.Err())
				}
				g.Expect(fmt.Sprint(errs)).NotTo(ContainSubstring(secret))
			})
		}
	}
}

// What Redis reports about a missing value is not an error of a server.
func TestMissingValuesStayNil(t *testing.T) {
	t.Parallel()
	client, err := New("redis://"+testenv.StartRejectingRedis(t, "$-1\r\n").Addr, time.Minute)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()
	g.Expect(errors.Is(client.Get(t.Context(), "a").Err(), redis.Nil)).To(BeTrue())
}
