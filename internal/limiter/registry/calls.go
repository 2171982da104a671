// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

var (
	termScript      = newScript("term.lua")
	publishScript   = newScript("publish.lua")
	readScript      = newScript("read.lua")
	heartbeatScript = newScript("heartbeat.lua")
)

func newScript(name string) *redis.Script {
	var source strings.Builder
	for _, file := range []string{"prelude.lua", name} {
		text, err := sources.ReadFile(file)
		if err != nil {
			panic(err) // embedded: cannot be missing
		}
		source.Write(text)
	}
	return redis.NewScript(source.String())
}

const (
	// callTimeout bounds a small call. It is well below the 2 s in which a lost registry
	// must be restored, because a broken connection can cost one timeout.
	callTimeout = time.Second

	// loadAllTimeout bounds loading all plans.
	loadAllTimeout = 10 * time.Second

	// minWriteBytesPerSecond is the throughput that the timeout of a large write assumes.
	minWriteBytesPerSecond = 4 << 20
)

// scripts calls the Lua scripts of the registry.
type scripts struct {
	client redis.UniversalClient
	keys   []string
}

func newScripts(client redis.UniversalClient, prefix string) scripts {
	plans := prefix + layoutVersion + "{registry}"
	return scripts{client: client, keys: []string{plans, plans + ":meta", plans + ":changes", plans + ":replicas"}}
}

func (s *scripts) channel() string { return s.keys[0] }

// call runs a script and decodes the elements of its reply into the targets.
func (s *scripts) call(ctx context.Context, limit time.Duration, script *redis.Script, args []any, targets ...any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := script.Run(ctx, s.client, s.keys, args...).Slice()
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if err := scan(reply, targets...); err != nil {
		return fmt.Errorf("redis: decode reply: %w", err)
	}
	return nil
}

// header is the state of the registry that every script returns.
type header struct {
	version
	complete  bool
	published int64 // microseconds of server time
	term      int64
	holder    string
	now       int64 // microseconds of server time
}

// takeTerm begins a term higher than previous, provided that the registry is still in the
// observed epoch. It succeeded if the header names the holder.
func (s *scripts) takeTerm(ctx context.Context, holder string, previous int64, observed epoch) (h header, err error) {
	err = s.call(ctx, callTimeout, termScript, []any{holder, previous, string(observed)}, &h)
	return h, err
}

// write is a batch of changes from one version of the registry to the next.
type write struct {
	from, to version
	changes  map[string][]byte // nil deletes
	count    int               // plans after the write
}

// replaces reports whether the write begins a new epoch: then its changes are all plans.
func (w *write) replaces() bool { return w.from.epoch != w.to.epoch }

// arguments returns the arguments of publish.lua and the total size of the plans.
func (w *write) arguments(term int64, holder string) (args []any, size int) {
	args = make([]any, 0, 10+2*len(w.changes))
	args = append(args, term, holder, string(w.from.epoch), w.from.revision, w.from.digest,
		string(w.to.epoch), w.to.revision, w.to.digest, w.count, rememberedChanges)
	for id, data := range w.changes {
		args = append(args, id, data)
		size += len(data)
	}
	return args, size
}

// publish writes the batch. It returns errConflict if Redis rejected it.
func (s *scripts) publish(ctx context.Context, term int64, holder string, w *write) error {
	args, size := w.arguments(term, holder)
	limit := callTimeout + time.Duration(size)*time.Second/minWriteBytesPerSecond
	var (
		written int64
		h       header
	)
	if err := s.call(ctx, limit, publishScript, args, &written, &h); err != nil {
		return err
	}
	if written == 0 {
		return errConflict
	}
	return nil
}

// Kinds of replies of read.
const (
	readNothing int64 = iota
	readChanges
	readAll
)

// read returns the changes since the version that the reader has, or all plans.
func (s *scripts) read(ctx context.Context, have version) (h header, what int64, plans map[string]string, err error) {
	err = s.call(ctx, loadAllTimeout, readScript, []any{string(have.epoch), have.revision}, &h, &what, &plans)
	return h, what, plans, err
}

// report is the heartbeat of a replica. That of a leader has no name and is empty.
type report struct {
	Owner    string `json:"-"`
	Name     string `json:"-"`
	Epoch    epoch  `json:"epoch,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Rejects is the epoch of the registry that the replica has rejected, or empty. Other
	// releases read it under its JSON name.
	Rejects epoch `json:"distrusts,omitempty"`
	// Skips is the number of plans that the replica cannot decode; Skipped names some.
	Skips   int      `json:"skips,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
}

// heartbeat reports the replica with that name as alive and returns all live replicas and
// leaders. A nil report removes it.
func (s *scripts) heartbeat(ctx context.Context, owner, name string, r *report) (h header, alive []report, err error) {
	encoded := []byte{}
	if r != nil {
		if encoded, err = json.Marshal(r); err != nil {
			return h, nil, fmt.Errorf("encode heartbeat: %w", err)
		}
	}
	var reports map[string]string
	args := []any{owner + "/" + name, encoded, lifetime.Microseconds()}
	if err := s.call(ctx, callTimeout, heartbeatScript, args, &h, &reports); err != nil {
		return h, nil, err
	}
	for field, text := range reports {
		var other report
		// A report of another release may not decode; its replica is alive nevertheless.
		_ = json.Unmarshal([]byte(text), &other)
		slash := max(0, strings.LastIndexByte(field, '/'))
		other.Owner, other.Name = field[:slash], strings.TrimPrefix(field[slash:], "/")
		alive = append(alive, other)
	}
	return h, alive, nil
}

// isReplica reports whether the report is from a replica of the installation.
func (r *report) isReplica(owner string) bool { return r.Owner == owner && r.Name != "" }

var errReply = errors.New("unexpected shape")

// scan decodes the elements of a reply into the targets. Targets without an element keep
// their value.
func scan(reply []any, targets ...any) error {
	for i, element := range reply {
		if i == len(targets) {
			return errReply
		}
		ok := false
		switch target := targets[i].(type) {
		case *int64:
			*target, ok = element.(int64)
		case *string:
			*target, ok = element.(string)
		case *epoch:
			var text string
			text, ok = element.(string)
			*target = epoch(text)
		case *bool:
			var n int64
			n, ok = element.(int64)
			*target = n == 1
		case *header:
			var elements []any
			if elements, ok = element.([]any); ok {
				ok = scanHeader(elements, target) == nil
			}
		case *map[string]string:
			*target, ok = scanPairs(element)
		}
		if !ok {
			return errReply
		}
	}
	return nil
}

func scanHeader(reply []any, h *header) error {
	if len(reply) != 8 {
		return errReply
	}
	return scan(reply, &h.epoch, &h.revision, &h.digest, &h.complete, &h.published, &h.term, &h.holder, &h.now)
}

func scanPairs(element any) (map[string]string, bool) {
	elements, ok := element.([]any)
	if !ok || len(elements)%2 != 0 {
		return nil, false
	}
	pairs := make(map[string]string, len(elements)/2)
	for i := 0; i < len(elements); i += 2 {
		key, isKey := elements[i].(string)
		value, isValue := elements[i+1].(string)
		if !isKey || !isValue {
			return nil, false
		}
		pairs[key] = value
	}
	return pairs, true
}
