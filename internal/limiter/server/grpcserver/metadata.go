// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"context"
	"maps"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

const (
	// lightMetadataBytes bounds the memory of the metadata of a call, which is part of requestBytes.
	lightMetadataBytes = 4 << 10
	// fieldBytes bounds one field of metadata that exceed this.
	fieldBytes = 1 << 10
	// valueBytes is the memory of a value besides its text.
	valueBytes = 64
	// lastingPrefix begins the methods of calls that may last: health watches and reflection.
	lastingPrefix = "/grpc."
	// lastingBytes is what such a call holds.
	lastingBytes = 16 << 10
)

// beginCall drops metadata that are too large, or all if nothing traces calls, and lets a lasting call hold memory of
// its connection until it ends. It implements tap.ServerInHandle.
func (s *Server) beginCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	if s.options.Tracing == nil {
		clear(info.Header)
	} else {
		trimMetadata(info.Header)
	}
	if !strings.HasPrefix(info.FullMethodName, lastingPrefix) {
		return ctx, nil
	}
	if conn := connOf(ctx); conn != nil {
		conn.held.Hold(lastingBytes)
		context.AfterFunc(ctx, func() { conn.held.Hold(-lastingBytes) })
	}
	return ctx, nil
}

// trimMetadata removes large fields if there is too much metadata, and all if that is not enough.
// A call needs only the metadata of its trace. Header compression lets a client send 1 MiB in a few bytes.
func trimMetadata(md metadata.MD) {
	if metadataBytes(md) <= lightMetadataBytes {
		return
	}
	maps.DeleteFunc(md, func(_ string, values []string) bool { return bytesOf(values) > fieldBytes })
	if metadataBytes(md) > lightMetadataBytes {
		clear(md)
	}
}

func metadataBytes(md metadata.MD) (bytes int) {
	for name, values := range md {
		bytes += len(name) + bytesOf(values)
	}
	return bytes
}

func bytesOf(values []string) (bytes int) {
	for _, value := range values {
		bytes += len(value) + valueBytes
	}
	return bytes
}
