// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gubernator asks gubernator over its protocol, without its generated code. The numbers of the fields are in
// https://github.com/gubernator-io/gubernator/blob/master/proto/gubernator.proto.
package gubernator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

// The methods of the service.
const (
	GetRateLimits = "/pb.gubernator.V1/GetRateLimits"
	healthCheck   = "/pb.gubernator.V1/HealthCheck"
)

// errProtocol is the kind of errors about what gubernator answers.
var errProtocol = errors.New("gubernator")

// behaviorGlobal is Behavior.GLOBAL.
const behaviorGlobal = 2

// Request is a RateLimitReq of a token bucket.
type Request struct {
	Name, Key   string
	Hits, Limit int64
	Duration    time.Duration
	Global      bool // behavior GLOBAL
}

// Answer is a RateLimitResp.
type Answer struct {
	Over  bool
	Reset time.Time
}

// Client calls one instance.
type Client struct{ conn grpc.ClientConnInterface }

// NewClient returns a client that uses the connection.
func NewClient(conn grpc.ClientConnInterface) *Client { return &Client{conn: conn} }

// GetRateLimits decides the requests, each by itself. The answers are in the same order.
func (c *Client) GetRateLimits(ctx context.Context, requests []Request) ([]Answer, error) {
	message := Encode(requests)
	var reply []byte
	if err := c.conn.Invoke(ctx, GetRateLimits, &message, &reply, grpc.ForceCodec(Codec{})); err != nil {
		return nil, err
	}
	answers, err := decode(reply)
	if err == nil && len(answers) != len(requests) {
		err = fmt.Errorf("%w: %d answers to %d requests", errProtocol, len(answers), len(requests))
	}
	return answers, err
}

// HealthCheck returns the number of instances that this one knows, itself included.
func (c *Client) HealthCheck(ctx context.Context) (peers int, err error) {
	var message, reply []byte
	if err := c.conn.Invoke(ctx, healthCheck, &message, &reply, grpc.ForceCodec(Codec{})); err != nil {
		return 0, err
	}
	err = fieldsOf(reply, func(number protowire.Number, v value) error {
		switch int32(number) {
		case 1: // status
			if string(v.bytes) != "healthy" {
				return fmt.Errorf("%w: status %q", errProtocol, v.bytes)
			}
		case 3: // peer_count
			peers = int(v.number)
		}
		return nil
	})
	return peers, err
}

// Encode returns the GetRateLimitsReq.
func Encode(requests []Request) []byte {
	var message []byte
	for _, r := range requests {
		var one []byte
		one = appendText(one, 1, r.Name)
		one = appendText(one, 2, r.Key)
		one = appendNumber(one, 3, r.Hits)
		one = appendNumber(one, 4, r.Limit)
		one = appendNumber(one, 5, r.Duration.Milliseconds())
		if r.Global {
			one = appendNumber(one, 7, behaviorGlobal)
		}
		message = appendText(message, 1, string(one))
	}
	return message
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendNumber(b []byte, field protowire.Number, n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

// decode decodes a GetRateLimitsResp. An absent status is UNDER_LIMIT.
func decode(reply []byte) (answers []Answer, err error) {
	err = fieldsOf(reply, func(number protowire.Number, v value) error {
		if number != 1 {
			return nil
		}
		var a Answer
		if err := fieldsOf(v.bytes, func(number protowire.Number, v value) error {
			switch int32(number) {
			case 1:
				a.Over = v.number == 1
			case 4:
				a.Reset = time.UnixMilli(int64(v.number))
			case 5:
				return fmt.Errorf("%w: %s", errProtocol, v.bytes)
			}
			return nil
		}); err != nil {
			return err
		}
		answers = append(answers, a)
		return nil
	})
	return answers, err
}

// value is the value of a field.
type value struct {
	number uint64
	bytes  []byte
}

// fieldsOf calls the function for each field of a message, until it returns an error.
func fieldsOf(message []byte, field func(protowire.Number, value) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errProtocol, protowire.ParseError(n))
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return fmt.Errorf("%w: %w", errProtocol, protowire.ParseError(size))
		}
		var v value
		switch kind {
		case protowire.BytesType:
			v.bytes, _ = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			v.number, _ = protowire.ConsumeVarint(message)
		default: // not in these messages
		}
		if err := field(number, v); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}

// Codec sends and receives encoded messages.
type Codec struct{}

// Marshal implements encoding.Codec.
func (Codec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal implements encoding.Codec.
func (Codec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}

// Name implements encoding.Codec.
func (Codec) Name() string { return "proto" }
