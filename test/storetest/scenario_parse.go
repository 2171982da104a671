// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

func parseScenario(t *testing.T, file string) ([]step, time.Time) {
	t.Helper()
	text, err := scenarios.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := scenarioParser{policies: map[string]*scenarioPolicy{}}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := p.line(strings.TrimSpace(line)); err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
	}
	return p.steps, p.start
}

type scenarioPolicy struct {
	name             string
	attempts, shadow bool
	reservations     bool
	slices           bool
	blockOnCommit    bool
	limits           []store.Limit
}

func (p *scenarioPolicy) prepare() *store.Policy {
	settings := store.Settings{ID: "test/" + p.name, Attempts: p.attempts, Shadow: p.shadow, BlockOnCommit: p.blockOnCommit}
	if p.reservations {
		settings.MaxOpen = 3
	}
	if p.slices {
		settings.Slices = store.Slices{MaxPercent: 20, MaxAge: time.Second}
	}
	return store.NewVariants(settings, p.limits)[0]
}

type scenarioParser struct {
	policies map[string]*scenarioPolicy
	latest   string // the last policy of the file so far
	start    time.Time
	steps    []step
}

func (p *scenarioParser) line(line string) error {
	words := strings.Fields(line)
	switch words[0] {
	case "start":
		var err error
		p.start, err = time.Parse(time.RFC3339, words[1])
		return err
	case "policy":
		policy := &scenarioPolicy{name: words[1]}
		for _, w := range words[2:] {
			policy.attempts = policy.attempts || w == "attempts"
			policy.shadow = policy.shadow || w == "shadow"
			policy.reservations = policy.reservations || w == "reservations"
			policy.slices = policy.slices || w == "slices"
			policy.blockOnCommit = policy.blockOnCommit || w == "blockOnCommit"
		}
		p.policies[policy.name] = policy // a second definition is an edit
		p.latest = policy.name
		return nil
	case "limit":
		return p.limit(p.policies[p.latest], words[1:])
	case "at":
		if check, want, ok := strings.Cut(line, "->"); ok {
			return p.check(line, strings.Fields(check), strings.Fields(want))
		}
		return p.action(line, words)
	}
	return fmt.Errorf("unknown word %q", words[0])
}

func (p *scenarioParser) limit(policy *scenarioPolicy, words []string) error {
	l := store.Limit{Name: words[0], Algorithm: store.AlgorithmNamed(words[1])}
	threshold, window, _ := strings.Cut(words[2], "/")
	var err error
	if l.Threshold, err = strconv.ParseInt(threshold, 10, 64); err != nil {
		return err
	}
	if period, zone, found := strings.Cut(window, "@"); found {
		if l.Calendar, err = calendarOf(period, zone, p.start); err != nil {
			return err
		}
	} else if l.Window, err = time.ParseDuration(window); err != nil {
		return err
	}
	l.Quota = l.Threshold
	for i := 3; i < len(words) && err == nil; i++ {
		switch words[i] {
		case "reached":
			l.Quota--
			continue
		case "burst":
			l.Quota, err = strconv.ParseInt(words[i+1], 10, 64)
		case "bucket":
			l.Bucket, err = time.ParseDuration(words[i+1])
		case "block":
			l.Block, err = time.ParseDuration(words[i+1])
		case "blocks":
			l.Escalation, err = parseEscalation(words[i+1])
		default:
			err = fmt.Errorf("unknown word %q", words[i])
		}
		i++
	}
	l.HardQuota = l.Quota * 3 / 2
	policy.limits = append(policy.limits, l)
	return err
}

// parseEscalation reads LENGTH,LENGTH,.../WINDOW.
func parseEscalation(text string) (*store.Escalation, error) {
	lengths, window, _ := strings.Cut(text, "/")
	e := &store.Escalation{}
	for length := range strings.SplitSeq(lengths, ",") {
		d, err := time.ParseDuration(length)
		if err != nil {
			return nil, err
		}
		e.Lengths = append(e.Lengths, d)
	}
	var err error
	e.Window, err = time.ParseDuration(window)
	return e, err
}

// action reads "at TIME reset|block DURATION|unblock POLICY [key KEY]".
func (p *scenarioParser) action(line string, words []string) (err error) {
	s := step{line: line}
	if s.at, err = time.ParseDuration(words[1]); err != nil {
		return err
	}
	verb, rest := words[2], words[3:]
	var length time.Duration
	if verb == "block" {
		if length, err = time.ParseDuration(rest[0]); err != nil {
			return err
		}
		rest = rest[1:]
	}
	policy, key := p.policies[rest[0]].prepare(), store.EncodeKey("alice")
	if len(rest) == 3 {
		key = store.EncodeKey(rest[2])
	}
	s.action = func(ctx context.Context, backend Store) (err error) {
		switch verb {
		case "reset":
			_, err = backend.Reset(ctx, policy, key)
		case "unblock":
			_, err = backend.Unblock(ctx, policy, key)
		case "block":
			err = backend.Block(ctx, policy, key, length)
		default:
			err = fmt.Errorf("unknown word %q", verb)
		}
		return err
	}
	p.steps = append(p.steps, s)
	return nil
}

var scenarioActions = map[string]store.Action{
	"reserve": store.Reserve, "renew": store.Renew, "commit": store.Commit, "commit-or-charge": store.CommitOrCharge, "charge": store.Charge,
	"slice": store.TakeSlice,
}

// checkWords reads the words of a check after its time.
func (s *step) checkWords(words []string) (key string, entry store.Entry, names []string, err error) {
	key, entry.Cost = "alice", 1
	for i := 0; i < len(words) && err == nil; i++ {
		switch words[i] {
		case "key":
			i++
			key = words[i]
		case "cost":
			i++
			entry.Cost, err = strconv.ParseInt(words[i], 10, 64)
		case "draw":
			i++
			var share float64
			share, err = strconv.ParseFloat(words[i], 64)
			s.call.Draw = uint32(share * (1 << 32))
		case "peek":
			entry.Peek = true
		case "reserve", "renew", "commit", "commit-or-charge", "charge", "slice":
			entry.Action, entry.ID = scenarioActions[words[i]], words[i+1]
			if i++; i+2 < len(words) && words[i+1] == "for" {
				entry.TTL, err = time.ParseDuration(words[i+2])
				i += 2
			}
		default:
			names = append(names, words[i])
		}
	}
	return key, entry, names, err
}

func (p *scenarioParser) check(line string, words, want []string) (err error) {
	s := step{line: line}
	if s.at, err = time.ParseDuration(words[1]); err != nil {
		return err
	}
	key, entry, names, err := s.checkWords(words[2:])
	if len(names) == 0 {
		names = []string{p.latest}
	}
	for _, name := range names {
		if p.policies[name] == nil {
			return fmt.Errorf("no policy %q", name)
		}
		entry.Policy, entry.Key = p.policies[name].prepare(), store.EncodeKey(key)
		s.call.Entries = append(s.call.Entries, entry)
	}
	if err == nil {
		err = s.parseWant(want)
	}
	p.steps = append(p.steps, s)
	return err
}

// parseWant reads "allow|deny|blocked|blocks [LIMIT: FACT VALUE ...]".
func (s *step) parseWant(words []string) error {
	s.want, s.facts = words[0], map[string]map[string]string{}
	limit := ""
	for i := 1; i < len(words); i++ {
		if name, ok := strings.CutSuffix(words[i], ":"); ok {
			if limit = s.limitNamed(name); limit == "" {
				return fmt.Errorf("no limit %q in the policies of this check", name)
			}
			s.facts[limit] = map[string]string{}
			continue
		}
		value := words[i+1]
		if d, err := time.ParseDuration(value); err == nil && value != "0" {
			value = d.String()
		}
		s.facts[limit][words[i]] = value
		i++
	}
	return nil
}

// limitNamed returns the ID of the limit with that name or ID, or "".
func (s *step) limitNamed(name string) string {
	for _, e := range s.call.Entries {
		at := slices.IndexFunc(e.Policy.Limits(), func(l store.Limit) bool {
			return l.Name == name || limitID(e.Policy, l.Name) == name
		})
		if at >= 0 {
			return limitID(e.Policy, e.Policy.Limits()[at].Name)
		}
	}
	return ""
}
