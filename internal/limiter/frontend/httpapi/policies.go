// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// policies serves GET /v1/policies: the revision in force and the live replicas. The operator port also lists all
// policies. Another port lists the policies of the Namespaces in which the bearer of a token has VerbInspect.
func (h *Handler) policies(w http.ResponseWriter, r *http.Request) {
	snapshot := h.Engine.Snapshot()
	if snapshot == nil {
		writeProblem(w, http.StatusServiceUnavailable, notReady())
		return
	}
	out := &httptypes.PolicyList{
		Version: h.Version, Revision: snapshot.Revision(), Count: len(snapshot.Plans()), Replicas: []httptypes.Replica{},
	}
	if h.Replicas != nil {
		out.Replicas = append(out.Replicas, h.Replicas(r.Context())...)
	}
	switch {
	case h.isOperator:
		if h.Unready != nil {
			out.Unready = h.Unready()
		}
		list := h.encoded.of(snapshot)
		writePolicies(w, out, list, [][]byte{list.text})
	case h.Authorizer != nil && r.Header.Get("Authorization") != "":
		h.withToken(func(w http.ResponseWriter, r *http.Request, token string) error {
			return h.writeVisiblePolicies(w, r, token, out)
		})(w, r)
	default:
		writeJSON(w, http.StatusOK, answer.TypeJSON, out)
	}
}

// writeVisiblePolicies answers with the policies that the bearer of the token may inspect.
func (h *Handler) writeVisiblePolicies(w http.ResponseWriter, r *http.Request, token string, out *httptypes.PolicyList) error {
	q, err := listQueryOf(r.URL.RawQuery)
	if err == nil && q.Policy != "" {
		err = inField("policy", invalid("is not a known parameter"))
	}
	if err != nil {
		return err
	}
	list := h.encoded.of(h.Engine.Snapshot())
	rights, err := h.rightsIn(r.Context(), token, VerbInspect, q.Scope)
	var visible [][]byte
	if err == nil {
		visible, err = list.visible(r.Context(), rights, q.Namespace)
	}
	if err != nil {
		return &tokenError{err}
	}
	writePolicies(w, out, list, visible)
	return nil
}

// writePolicies answers with the parts of the list, which it does not copy: clients that read slowly share them.
func writePolicies(w http.ResponseWriter, out *httptypes.PolicyList, list *encodedPolicies, parts [][]byte) {
	out.Revision, out.Count = list.revision, list.count
	rest, err := json.Marshal(out)
	if err != nil {
		panic(err) // plain data
	}
	texts := [][]byte{[]byte(`{"policies":[`)}
	for i, part := range parts {
		if i > 0 {
			texts = append(texts, []byte{','})
		}
		texts = append(texts, part)
	}
	texts = append(texts, append([]byte("],"), rest[1:]...), []byte{'\n'})
	length := 0
	for _, text := range texts {
		length += len(text)
	}
	w.Header().Set(answer.HeaderContentType, answer.TypeJSON)
	w.Header().Set(headerContentLength, strconv.Itoa(length))
	w.WriteHeader(http.StatusOK)
	// An error means that the client closed the connection, or read nothing for too long.
	_, _ = (*net.Buffers)(&texts).WriteTo(w)
}

// encodedPolicies are the policies of a snapshot in JSON, separated by commas.
type encodedPolicies struct {
	text []byte
	// parts are the places of the Namespaces in text.
	parts    []namespacePart
	revision int64
	count    int

	// snapshot is weak, so that the list does not keep the plans of a former snapshot.
	snapshot weak.Pointer[index.Snapshot]
	encoded  time.Time
}

type namespacePart struct {
	namespace  string
	start, end int
}

// visible returns the parts that the rights permit, of the Namespace or, if it is empty, of all.
func (e *encodedPolicies) visible(ctx context.Context, rights *ReadRights, namespace string) (texts [][]byte, err error) {
	for _, p := range e.parts {
		if namespace != "" && p.namespace != namespace {
			continue
		}
		allowed, err := rights.ToPolicy(ctx, p.namespace+"/")
		if err != nil {
			return nil, err
		}
		if allowed {
			texts = append(texts, e.text[p.start:p.end])
		}
	}
	return texts, nil
}

// encodingPeriod is the least time between two encodings of the policies. A list may be older than the plans by it.
const encodingPeriod = time.Second

// policyEncoder encodes the policies once for each snapshot. All requests share the text.
type policyEncoder struct {
	now  func() time.Time
	mu   sync.Mutex
	last *encodedPolicies
}

// of returns the policies of the snapshot, or of an earlier one that was encoded within encodingPeriod.
func (p *policyEncoder) of(snapshot *index.Snapshot) *encodedPolicies {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, weakly := p.now(), weak.Make(snapshot)
	if p.last == nil || p.last.snapshot != weakly && now.Sub(p.last.encoded) >= encodingPeriod {
		p.last = encodePolicies(snapshot)
		p.last.snapshot, p.last.encoded = weakly, now
	}
	return p.last
}

func encodePolicies(snapshot *index.Snapshot) *encodedPolicies {
	e := &encodedPolicies{revision: snapshot.Revision(), count: len(snapshot.Plans())}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for i, p := range snapshot.Plans() {
		if i > 0 {
			text.Truncate(text.Len() - 1) // the end of the line
			text.WriteByte(',')
		}
		start := text.Len()
		if err := encoder.Encode(summaryOf(p)); err != nil {
			panic(err) // plain data
		}
		if last := len(e.parts) - 1; last >= 0 && e.parts[last].namespace == p.Namespace {
			e.parts[last].end = text.Len() - 1
		} else {
			e.parts = append(e.parts, namespacePart{namespace: p.Namespace, start: start, end: text.Len() - 1})
		}
	}
	e.text = slices.Clip(bytes.TrimSuffix(text.Bytes(), []byte{'\n'}))
	return e
}

func summaryOf(p *plan.Plan) httptypes.PolicySummary {
	s := httptypes.PolicySummary{
		Name: p.ID(), Mode: p.Mode, Limits: make([]httptypes.LimitSummary, 0, len(p.Limits)), LateCharges: p.LateCharges,
	}
	if slices := p.Slices; slices.Allowed() {
		s.Slices = httptypes.SlicesSummary{MaxPercent: slices.MaxPercent, MaxAge: plan.FormatMillis(slices.MaxAgeMillis)}
	}
	if r := p.Reservations; r.Allowed() {
		s.Reservations = httptypes.ReservationsSummary{MaxTTL: plan.FormatMillis(r.MaxTTLMillis), MaxOpen: r.MaxOpen, Cost: r.Cost}
		if r.BlockOnCommit {
			s.Reservations.BlockOn = "Commit"
		}
	}
	for _, l := range p.Limits {
		summary := httptypes.LimitSummary{Name: l.Name, Algorithm: l.Algorithm, Threshold: l.Threshold}
		summary.Window, summary.Calendar = windowTexts(l.Window(), l.Calendar)
		s.Limits = append(s.Limits, summary)
	}
	for _, c := range p.Candidates {
		at := slices.IndexFunc(s.Limits, func(l httptypes.LimitSummary) bool { return l.Name == c.Name })
		s.Limits[at].Candidate = httptypes.CandidateSummary{Threshold: c.Threshold, Burst: c.Burst, Window: plan.FormatMillis(c.WindowMillis)}
	}
	return s
}

// windowTexts describes the window or the calendar; the other text is empty.
func windowTexts(window time.Duration, calendar *plan.Calendar) (windowText, calendarText string) {
	if calendar != nil {
		return "", calendar.String()
	}
	return plan.FormatMillis(window.Milliseconds()), ""
}
