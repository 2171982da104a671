// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// arrived is a request as the upstream received it.
type arrived struct {
	Method  string      `json:"method"`
	Host    string      `json:"host"`
	URI     string      `json:"uri"`
	Headers http.Header `json:"headers"`
}

// serve answers each request with 200 and what arrived, until the process is stopped.
func serve(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("an address is required")
	}
	server := &http.Server{
		Addr:              args[0],
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := json.NewEncoder(w).Encode(arrived{Method: r.Method, Host: r.Host, URI: r.RequestURI, Headers: r.Header})
			if err != nil {
				fmt.Fprintln(os.Stderr, "client: writing the response:", err)
			}
		}),
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
