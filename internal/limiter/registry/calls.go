// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

//go:embed *.lua
var sources embed.FS

var (
	termScript      = newScript("term.lua")
	publishScript   = newScript("publish.lua")
	readScript      = newScript("read.lua")
	heartbeatScript = newScript("heartbeat.lua")
	expireScript    = newScript("expire.lua")
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

// callTimeout bounds a small call. It is well below the 2 s in which a lost registry must be restored, because a broken
// connection can cost one timeout. Only tests set it.
var callTimeout = time.Second

const (
	// loadAllTimeout bounds loading all plans.
	loadAllTimeout = 10 * time.Second

	// minWriteBytesPerSecond is the throughput that the timeout of a large write assumes.
	minWriteBytesPerSecond = 4 << 20
)

// layout is the number of the layout of the keys, see doc.go. It stands in the names of the keys and in meta. A release that
// changes the layout raises it; a new member of a record needs no other layout, because an earlier release skips a record with a
// member that it does not know.
const layout = 1

// scripts calls the Lua scripts on the registry.
type scripts struct {
	client redis.UniversalClient
	keys   []string
	clock  *redisclient.Clock // learns the time of Redis from heartbeats; may be nil
}

func newScripts(client redis.UniversalClient, prefix string, clock *redisclient.Clock) *scripts {
	records := prefix + strconv.Itoa(layout) + ":{registry}"
	return &scripts{client: client, clock: clock, keys: []string{
		records, records + ":meta", records + ":changes", prefix + "{registry}:processes", prefix + "{registry}:term",
	}}
}

func (s *scripts) channel() string { return s.plansKey() }

func (s *scripts) plansKey() string     { return s.keys[0] }
func (s *scripts) metaKey() string      { return s.keys[1] }
func (s *scripts) processesKey() string { return s.keys[3] }
func (s *scripts) termKey() string      { return s.keys[4] }

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

// header is the state of the registry, and the term, that every script returns.
type header struct {
	version
	complete  bool
	published int64 // microseconds of server time
	term      int64
	holder    string
	owner     string // the installation of the leader
	layout    int64  // 0 without an epoch
	now       int64  // microseconds of server time
}

// takeTerm begins a term higher than previous, provided that the term is still the observed
// one and no other leader of the same installation is alive. It succeeded if the header names
// the holder.
func (s *scripts) takeTerm(ctx context.Context, r *heartbeat, previous int64, observed *header, names []string) (h header, err error) {
	encoded, err := r.encode()
	if err != nil {
		return h, err
	}
	args := []any{r.Name, previous, observed.term, observed.holder, r.Owner, r.field(), encoded, lifetime.Microseconds()}
	for _, name := range names {
		args = append(args, (&heartbeat{Owner: name, Kind: kindLeader}).field())
	}
	err = s.call(ctx, callTimeout, termScript, args, &h)
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
	args = make([]any, 0, 11+2*len(w.changes))
	args = append(args, term, holder, string(w.from.epoch), w.from.revision, w.from.digest,
		string(w.to.epoch), w.to.revision, w.to.digest, w.count, rememberedChanges, layout)
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

// read returns the changes since the version that the reader has, or all plans. The digest must be the one of the
// plans that the reader has.
func (s *scripts) read(ctx context.Context, have version) (h header, what int64, plans map[string]string, err error) {
	err = s.call(ctx, loadAllTimeout, readScript, []any{string(have.epoch), have.revision, have.digest}, &h, &what, &plans)
	return h, what, plans, err
}

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
		case *bool:
			var n int64
			n, ok = element.(int64)
			*target = n == 1
		case *header:
			elements, isList := element.([]any)
			ok = isList && scanHeader(elements, target) == nil
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
	if len(reply) != 10 {
		return errReply
	}
	return scan(reply, (*string)(&h.epoch), &h.revision, &h.digest, &h.complete, &h.published,
		&h.layout, &h.term, &h.holder, &h.owner, &h.now)
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
