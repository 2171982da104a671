// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// announcedSet has the policies whose denials have begun by an event, and have not ended by one.
var announcedSet = reportSet{key: "{registry}:denying", life: 24 * time.Hour}

// memberOf returns the member of the sets of denials.
func memberOf(p plan.Identity) string { return p.ID + " " + p.UID }

func membersOf(policies []plan.Identity) []any {
	members := make([]any, len(policies))
	for i := range policies {
		members[i] = memberOf(policies[i])
	}
	return members
}

// Denials returns the policies that replicas have reported in the last five minutes to deny requests. A
// policy that is reported again during the call can be in the list twice.
func (r *Reader) Denials(ctx context.Context) ([]plan.DenialReport, error) {
	var reports []plan.DenialReport
	err := r.visit(ctx, denialSet, time.Time{}, func(fields []string, at time.Time) {
		if len(fields) == 2 {
			reports = append(reports, plan.DenialReport{Identity: plan.Identity{ID: fields[0], UID: fields[1]}, At: at})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read which policies deny requests: %w", err)
	}
	return reports, nil
}

// Announced returns the policies that were announced to have begun to deny requests, and not to have ended.
// It forgets them after 24 hours, or with the data of Redis.
func (r *Reader) Announced(ctx context.Context) ([]plan.Identity, error) {
	var policies []plan.Identity
	err := r.visit(ctx, announcedSet, time.Time{}, func(fields []string, _ time.Time) {
		if len(fields) == 2 {
			policies = append(policies, plan.Identity{ID: fields[0], UID: fields[1]})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read which denials were announced: %w", err)
	}
	return policies, nil
}

// Announce records the announcements for the next leader. After an error, any part may be recorded.
func (r *Reader) Announce(ctx context.Context, began, ended []plan.Identity) error {
	for batch := range slices.Chunk(began, batchSize) {
		if err := announcedSet.add(ctx, r.client, r.prefix, membersOf(batch)); err != nil {
			return fmt.Errorf("record that denials were announced: %w", err)
		}
	}
	for batch := range slices.Chunk(ended, batchSize) {
		if err := r.remove(ctx, membersOf(batch)); err != nil {
			return fmt.Errorf("record that the end of denials was announced: %w", err)
		}
	}
	return nil
}

func (r *Reader) remove(ctx context.Context, members []any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.client.ZRem(ctx, r.prefix+announcedSet.key, members...).Err()
}
