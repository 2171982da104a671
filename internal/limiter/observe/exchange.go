// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
)

// The keys in Redis. They exist only while a reader looks, except for what ended replicas left.
//
//	<prefix>1:{observe}:parts    hash: replica -> "<milliseconds of server time>:<part>"
//	<prefix>1:{observe}:scopes   sorted set: the scopes that readers look at
//	<prefix>1:{observe}:left     hash: "<replica> <start>" -> as in parts, for an hour
const (
	partsKey  = "1:{observe}:parts"
	scopesKey = "1:{observe}:scopes"
	leftKey   = "1:{observe}:left"
)

const (
	// lookLife is how long replicas share a scope after a reader looked at it.
	lookLife = 10 * time.Second
	// partLife is how long a part is valid; a replica renews it every sharePeriod.
	partLife = 4 * time.Second
	// lookTimeout bounds one call of Redis.
	lookTimeout = 2 * time.Second
	// maxWait is how long a reader waits until all replicas have reported, askPeriod how often it
	// asks.
	maxWait   = 2500 * time.Millisecond
	askPeriod = 200 * time.Millisecond
)

//go:embed share.lua
var shareSource string

//go:embed look.lua
var lookSource string

var shareScript, lookScript = redis.NewScript(shareSource), redis.NewScript(lookSource)

// exchange shares the parts of the replicas through Redis.
type exchange struct {
	client  redis.UniversalClient
	keys    []string
	left    string
	replica string
}

func newExchange(client redis.UniversalClient, prefix, replica string) *exchange {
	return &exchange{client: client, keys: []string{prefix + partsKey, prefix + scopesKey}, left: prefix + leftKey, replica: replica}
}

// run returns the strings with which the script replies, if any.
func (x *exchange) run(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	values, err := script.Run(ctx, x.client, keys, args...).StringSlice()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return values, err
}

// readParts calls use for each part with which the script replies, and for the name of the part. A part of another
// release may not decode: it is missing.
func (x *exchange) readParts(ctx context.Context, use func(name string, p *part), script *redis.Script, keys []string, args ...any) error {
	values, err := x.run(ctx, script, keys, args...)
	for i := 0; i+1 < len(values); i += 2 {
		if p, err := decodePart([]byte(values[i+1])); err == nil {
			use(values[i], p)
		}
	}
	return err
}

// share stores the encoded part, if it is not empty, and returns the scopes that readers look at.
func (x *exchange) share(ctx context.Context, encoded []byte) ([]string, error) {
	return x.run(ctx, shareScript, x.keys, x.replica, encoded, partLife.Milliseconds())
}

// requestParts records that a reader looks at the scope, and returns the parts that cover it.
func (x *exchange) requestParts(ctx context.Context, scope string) (parts []*part, err error) {
	err = x.readParts(ctx, func(replica string, p *part) {
		if p.covers(scope) {
			p.Replica = replica
			parts = append(parts, p)
		}
	}, lookScript, x.keys, scope, lookLife.Milliseconds(), partLife.Milliseconds())
	return parts, err
}

// share writes started blocks and, while a reader looks, the part of this replica. A failure is logged
// once.
func (c *Collector) share(ctx context.Context) {
	err := c.writeBlocks(ctx)
	if err == nil && c.exchange != nil {
		err = c.sharePart(ctx)
	}
	if err != nil && !c.failed && ctx.Err() == nil {
		c.o.Logger.Warn("Failed to share the denied and blocked keys", "error", err)
	}
	c.failed = err != nil
}

func (c *Collector) sharePart(ctx context.Context) error {
	scopes, err := c.exchange.share(ctx, nil)
	if err != nil || len(scopes) == 0 {
		return err
	}
	encoded, err := c.part(scopes).encode()
	if err == nil {
		_, err = c.exchange.share(ctx, encoded)
	}
	return err
}

// awaitParts returns the parts of all replicas that report in time, this one first. It does not wait for parts of
// which left has a part.
func (c *Collector) awaitParts(ctx context.Context, s limiter.Scope, left []*part) ([]*part, error) {
	scope := scopeText(s)
	own := c.part([]string{scope})
	if c.exchange == nil {
		return []*part{own}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for found := []*part{own}; ; {
		others, err := c.exchange.requestParts(ctx, scope)
		if err == nil {
			found = found[:1]
			for _, p := range others {
				if p.Replica != c.o.Replica {
					found = append(found, p)
				}
			}
		}
		if len(c.missing(ctx, found, left)) == 0 {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return found, context.Cause(ctx)
		case <-time.After(askPeriod):
		}
	}
}

// missing returns the live replicas without a part. One that has left its part has ended.
func (c *Collector) missing(ctx context.Context, parts, left []*part) []string {
	names, count := c.o.Live(ctx)
	reported := make(map[string]bool, len(parts))
	for _, p := range slices.Concat(parts, left) {
		reported[p.Replica] = true
	}
	var missing []string
	for _, name := range names {
		if !reported[name] {
			missing = append(missing, name)
		}
	}
	for len(names) == 0 && len(parts)+len(missing) < count {
		missing = append(missing, "unknown")
	}
	return missing
}

// Activity implements limiter.Observer. It waits up to 2.5 seconds for other replicas. While Redis
// does not answer, they are missing.
func (c *Collector) Activity(ctx context.Context, scope limiter.Scope) (*limiter.Activity, error) {
	c.drain()
	left := c.left(ctx) // before look: a replica that ends in between counts once, or not at all
	parts, err := c.awaitParts(ctx, scope, left)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	all := slices.Concat(parts, left)
	a := merge(all, scopeText(scope))
	a.Since = countedSince(all)
	for _, p := range parts {
		a.Reported = append(a.Reported, p.Replica)
	}
	slices.Sort(a.Reported)
	a.Missing = c.missing(ctx, parts, left)
	return a, nil
}
