// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// The scripts and the model give the same replies to the same random steps: calls to
// chains of random policies, costs, peeks, overrides, edits, resets, manual blocks, and
// time that mostly advances. Every algorithm alone, and all of them mixed.
func TestScriptsAgreeWithModel(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			redis, _ := newServerBackend(t, on)
			compareWithModel(t, 15, redis)
		})
	}
}

// The store in memory gives the same replies as the model.
func TestMemoryAgreesWithModel(t *testing.T) { compareWithModel(t, 200, newMemoryBackend()) }

// compareWithModel runs the random steps of that number of seeds, with all algorithms mixed and
// with each alone.
func compareWithModel(t *testing.T, seeds uint64, b *backend) {
	t.Helper()
	const steps = 250
	model := newModelBackend()
	choices := [][]quota.Algorithm{allAlgorithms}
	for _, a := range allAlgorithms {
		choices = append(choices, []quota.Algorithm{a})
	}
	for _, choice := range choices {
		t.Run(fmt.Sprint(choice), func(t *testing.T) {
			for seed := range seeds {
				compareBackends(t, seed, steps, choice, model, b)
			}
		})
	}
}

// compareBackends runs the same random steps on two backends and compares the replies.
func compareBackends(t *testing.T, seed uint64, steps int, choice []quota.Algorithm, one, other *backend) {
	t.Helper()
	w := newWorkload(rand.New(rand.NewPCG(seed, 7)), choice, features{substitutes: true, holds: true})
	one.clear(t)
	other.clear(t)
	start := other.clock.Now()
	now := start
	var history []string
	for range steps {
		if next := w.nextTime(now); !other.isMonotonic || next.After(now) {
			now = next
		}
		one.setTime(t, now)
		other.setTime(t, now)
		did, do := w.nextStep()
		history = append(history, fmt.Sprintf("at %v %s", now.Sub(start), did))
		want, err := do(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		NewWithT(t).Expect(differenceOf(got, want)).To(BeEmpty(),
			"seed %d\n%s", seed, strings.Join(history[max(0, len(history)-12):], "\n"))
	}
}

// nextStep returns a random step, mostly a call, sometimes an operator's action.
func (w *workload) nextStep() (did string, do func(context.Context, decider) (any, error)) {
	e := w.randomEntry(w.r.IntN(len(w.policies)))
	switch w.r.IntN(60) {
	case 0:
		return fmt.Sprintf("reset %s key %s", e.Policy.ID(), e.Key), func(ctx context.Context, d decider) (any, error) {
			return d.Reset(ctx, e.Policy, e.Key)
		}
	case 1:
		length := workloadWindows[w.r.IntN(len(workloadWindows))]
		return fmt.Sprintf("block %s key %s for %v", e.Policy.ID(), e.Key, length), func(ctx context.Context, d decider) (any, error) {
			return "blocked", d.Block(ctx, e.Policy, e.Key, length)
		}
	case 2:
		return fmt.Sprintf("unblock %s key %s", e.Policy.ID(), e.Key), func(ctx context.Context, d decider) (any, error) {
			return d.Unblock(ctx, e.Policy, e.Key)
		}
	}
	call := w.nextCall()
	return describe(call), func(ctx context.Context, d decider) (any, error) { return d.Evaluate(ctx, call) }
}
