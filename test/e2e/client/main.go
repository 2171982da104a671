// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command client sends requests to Weir from inside the cluster and prints the result as
// JSON. The end-to-end tests run it in a pod with kubectl exec.
//
//	client wait                                  block until the process is stopped
//	client http [-method M] [-data D] URL        one request
//	client load [-rate N] [-duration D] ... URL  requests at a steady rate
//	client until [-status S] ... URL...          poll all URLs until each returns the status
//	client grpc -domain D [-entry K=V] ADDRESS   one request of Envoy's rate limit filter
//	client serve ADDRESS                         answer each request with 200, as an upstream
//
// Reading order: main.go (wait, http), load.go (load), until.go (until), grpc.go (grpc), serve.go (serve).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const commands = "wait, http, load, until, grpc or serve"

// maxBody is the most that is read of a response body.
const maxBody = 1 << 20

// connections keeps all idle connections of a load open. With the default of two per
// host, most requests would wait for a handshake.
var connections = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the first context
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("missing command: " + commands)
	}
	var result any
	var err error
	switch name := args[0]; name {
	case "wait":
		<-ctx.Done()
		return nil
	case "serve":
		return serve(ctx, args[1:])
	case "http":
		result, err = once(ctx, args[1:])
	case "load":
		result, err = load(ctx, args[1:])
	case "until":
		result, err = until(ctx, args[1:])
	case "grpc":
		result, err = shouldRateLimit(ctx, args[1:])
	default:
		return fmt.Errorf("%q: not known; %s", name, commands)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// requestSpec is a request that can be sent many times.
type requestSpec struct {
	method, data, url string
	headers           http.Header
	timeout           time.Duration
}

// parse adds the flags of a requestSpec to flags and parses all of them.
func (q *requestSpec) parse(flags *flag.FlagSet, args []string) error {
	flags.StringVar(&q.method, "method", http.MethodPost, "HTTP method")
	q.headers = http.Header{}
	flags.Func("header", "header such as 'Host: shop.example'; may be repeated", func(text string) error {
		name, value, found := strings.Cut(text, ": ")
		if !found {
			return errors.New("is not NAME: VALUE")
		}
		q.headers.Add(name, value)
		return nil
	})
	flags.StringVar(&q.data, "data", "", "request body")
	flags.DurationVar(&q.timeout, "timeout", 5*time.Second, "timeout of one request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("a URL is required")
	}
	q.url = flags.Arg(0)
	return nil
}

// answer is an HTTP response.
type answer struct {
	Status  int         `json:"status"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
	Millis  float64     `json:"millis"`
}

func (q *requestSpec) send(ctx context.Context) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, q.method, q.url, strings.NewReader(q.data))
	if err != nil {
		return nil, err
	}
	request.Header = q.headers.Clone() // all but Host
	if host := q.headers.Get("Host"); host != "" {
		request.Host = host
	}
	start := time.Now() //nolint:forbidigo // a stopwatch
	response, err := connections.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read-only
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, err
	}
	return &answer{
		Status:  response.StatusCode,
		Headers: response.Header,
		Body:    string(body),
		Millis:  float64(time.Since(start).Microseconds()) / 1000,
	}, nil
}

func once(ctx context.Context, args []string) (*answer, error) {
	var q requestSpec
	if err := q.parse(flag.NewFlagSet("http", flag.ContinueOnError), args); err != nil {
		return nil, err
	}
	return q.send(ctx)
}
