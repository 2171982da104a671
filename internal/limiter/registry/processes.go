// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Kinds of processes.
const (
	kindReplica = "replica" // follows the registry
	kindLeader  = "leader"  // holds the term; its name is the holder
	kindStandby = "standby" // may lead, and does not decide
)

// heartbeat is what a live process sends to the others.
type heartbeat struct {
	Owner string `json:"-"` // "" while the process does not know its installation
	Kind  string `json:"-"`
	Name  string `json:"-"`
	// Accepts are the owners whose registry the process accepts; nil accepts all.
	Accepts []string `json:"accepts,omitempty"`
	// Unready are the policies that are not Ready; only of a leader.
	Unready *plan.Unready `json:"unready,omitempty"`
	// Epoch and Revision identify the plans that a replica has loaded.
	Epoch    epoch `json:"epoch,omitempty"`
	Revision int64 `json:"revision,omitempty"`
	// Rejects is the epoch of the registry that the replica has rejected, or empty.
	Rejects epoch `json:"rejects,omitempty"`
	// Skips is the number of plans that the replica cannot decode; Skipped names some. If it does
	// not name all, SkipHashes lists all.
	Skips      int      `json:"skips,omitempty"`
	Skipped    []string `json:"skipped,omitempty"`
	SkipHashes []byte   `json:"skipHashes,omitempty"`
}

// field returns the name of the process among all processes.
func (r *heartbeat) field() string { return r.Owner + "/" + r.Kind + "/" + r.Name }

// encode returns the report of the process.
func (r *heartbeat) encode() ([]byte, error) {
	encoded, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode heartbeat: %w", err)
	}
	return encoded, nil
}

// parseField is the inverse of field. An owner may contain slashes.
func parseField(field string) (owner, kind, name string) {
	rest, name := cutLast(field)
	owner, kind = cutLast(rest)
	return owner, kind, name
}

// cutLast cuts the text at its last slash.
func cutLast(text string) (before, after string) {
	slash := max(0, strings.LastIndexByte(text, '/'))
	return text[:slash], strings.TrimPrefix(text[slash:], "/")
}

// others is what a heartbeat returns of other processes.
type others struct {
	leader    *heartbeat // of the term, nil if none is alive
	processes int        // number of all; processes that have just ended may be among them
}

// heartbeat reports the process as alive, and returns the state of the registry and others. A nil heartbeat
// reports none.
func (s *scripts) heartbeat(ctx context.Context, r *heartbeat) (header, others, error) {
	if r == nil {
		return s.beat(ctx, "", nil)
	}
	encoded, err := r.encode()
	if err != nil {
		return header{}, others{}, err
	}
	return s.beat(ctx, r.field(), encoded)
}

// leave removes the heartbeat of the process.
func (s *scripts) leave(ctx context.Context, r *heartbeat) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _, err := s.beat(ctx, r.field(), nil)
	return err
}

// leaveAtEnd removes the heartbeat of a process that ends. A failure is logged.
func (s *scripts) leaveAtEnd(ctx context.Context, r *heartbeat, logger *slog.Logger) {
	if err := s.leave(ctx, r); err != nil && !errors.Is(err, redis.ErrClosed) {
		logger.Info("Failed to remove the heartbeat; it expires by itself", "kind", r.Kind, "error", err)
	}
}

func (s *scripts) beat(ctx context.Context, field string, encoded []byte) (h header, o others, err error) {
	var leaders map[string]string
	var all int64
	args := []any{field, encoded, lifetime.Microseconds()}
	asked := s.clock.Local()
	if err := s.call(ctx, callTimeout, heartbeatScript, args, &h, &leaders, &all); err != nil {
		return h, o, err
	}
	s.clock.Learn(time.UnixMicro(h.now), asked)
	for name, report := range leaders {
		o.leader = decodeHeartbeat(name, report)
	}
	o.processes = int(all)
	return h, o, nil
}

// decodeHeartbeat decodes a report. One of another release may not decode; its process is alive nevertheless.
func decodeHeartbeat(name, report string) *heartbeat {
	r := &heartbeat{}
	_ = json.Unmarshal([]byte(report), r)
	r.Owner, r.Kind, r.Name = parseField(name)
	return r
}

// parseReport returns the report in the value of a process, and whether the process is alive at that time or up to a call later.
func parseReport(value string, now int64) (report string, isAlive bool) {
	text, report, _ := strings.Cut(value, " ")
	ends, _ := strconv.ParseInt(text, 10, 64)
	// An expiry too far ahead was written before the clock was set back.
	return report, ends > now && ends <= now+(lifetime+callTimeout).Microseconds()
}

// alive returns all live processes, by the server time of a header that was read just before. It removes the
// reports that have expired. Redis only copies the reports, since its scripts take ten times as long to take 1,000 of them
// apart.
func (s *scripts) alive(ctx context.Context, now int64) (alive []heartbeat, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reports, err := s.client.HGetAll(ctx, s.processesKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	expired := false
	for name, value := range reports {
		if report, isAlive := parseReport(value, now); isAlive {
			alive = append(alive, *decodeHeartbeat(name, report))
		} else {
			expired = true
		}
	}
	if expired {
		err = s.call(ctx, callTimeout, expireScript, []any{lifetime.Microseconds()})
	}
	return alive, err
}
