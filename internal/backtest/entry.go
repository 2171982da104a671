// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// entry is one logged request.
type entry struct {
	micros     int64  // since 1970
	date, time string // of a log that has them in two fields
	status     int
	attributes plan.Attributes
}

// setter sets one attribute of an entry.
type setter func(e *entry, value string) error

// setterOf returns how to set the attribute. It copies texts, so that entries that wait do not hold
// whole lines. A value "-" is absent in access logs.
func setterOf(a Attribute) setter {
	if name, ok := strings.CutPrefix(string(a), headerPrefix); ok {
		return func(e *entry, value string) error {
			if e.attributes.Headers == nil {
				e.attributes.Headers = map[string]string{}
			}
			e.attributes.Headers[name] = strings.Clone(value)
			return nil
		}
	}
	if key, ok := strings.CutPrefix(string(a), descriptorPrefix); ok {
		return func(e *entry, value string) error {
			if e.attributes.Descriptors == nil {
				e.attributes.Descriptors = make([]plan.Descriptor, 1)
			}
			d := &e.attributes.Descriptors[0]
			*d = append(*d, plan.Entry{Key: key, Value: strings.Clone(value)})
			return nil
		}
	}
	if claim, ok := strings.CutPrefix(string(a), claimPrefix); ok {
		return setterOfClaim(claim)
	}
	if a == AttributeTime {
		clock := &clock{}
		return func(e *entry, value string) (err error) {
			e.micros, err = clock.parse(value)
			return err
		}
	}
	return setters[a]
}

// setterIn is setterOf for a log whose fields the user names: a time beside a date is read with it.
func setterIn(named map[Attribute]string, a Attribute) setter {
	if a == AttributeTime && named[AttributeDate] != "" {
		return func(e *entry, value string) error { e.time = strings.Clone(value); return nil }
	}
	return setterOf(a)
}

// setterOfClaim returns how to set the claim, given by the names of its payload and the claim. Both may have dots, and
// only a policy shows which one separates them: each does.
func setterOfClaim(claim string) setter {
	return func(e *entry, value string) error {
		claims := map[string]map[string]string{}
		maps.Copy(claims, e.attributes.Claims)
		for i := range len(claim) {
			if claim[i] == '.' {
				names := maps.Clone(claims[claim[:i]])
				if names == nil {
					names = map[string]string{}
				}
				names[claim[i+1:]] = strings.Clone(value)
				claims[claim[:i]] = names
			}
		}
		e.attributes.Claims = claims
		return nil
	}
}

// setters set the attributes that are texts.
var setters = map[Attribute]setter{
	AttributeDate:          func(e *entry, value string) error { e.date = strings.Clone(value); return nil },
	AttributeStatus:        func(e *entry, value string) error { e.status, _ = strconv.Atoi(value); return nil },
	AttributeMethod:        func(e *entry, value string) error { e.attributes.Method = strings.Clone(value); return nil },
	AttributeHost:          func(e *entry, value string) error { e.attributes.Host = strings.Clone(value); return nil },
	AttributePath:          func(e *entry, value string) error { e.attributes.Path = strings.Clone(value); return nil },
	AttributePrincipal:     func(e *entry, value string) error { e.attributes.Principal = strings.Clone(value); return nil },
	AttributeDomain:        func(e *entry, value string) error { e.attributes.Domain = strings.Clone(value); return nil },
	AttributeTargets:       setTargets,
	AttributeRemoteAddress: func(e *entry, value string) error { e.attributes.RemoteAddress = addressOf(value); return nil },
	AttributeRequest:       setRequest,
}

// setTargets sets the targets from a list that commas separate. It leaves out values of another form.
func setTargets(e *entry, value string) error {
	e.attributes.Targets = nil
	for text := range strings.SplitSeq(value, ",") {
		if t, err := plan.ParseTarget(strings.TrimSpace(text)); err == nil {
			e.attributes.Targets = append(e.attributes.Targets, plan.Target(strings.Clone(string(t))))
		}
	}
	return nil
}

// setRequest sets method and path from a request line. A malformed one, such as the bytes of a
// TLS handshake, has neither.
func setRequest(e *entry, value string) error {
	method, rest, ok := strings.Cut(value, " ")
	if !ok {
		return nil
	}
	target, _, _ := strings.Cut(rest, " ")
	e.attributes.Method, e.attributes.Path = strings.Clone(method), strings.Clone(pathOf(target))
	return nil
}

// pathOf returns the path of a request target, which may be a URL.
func pathOf(target string) string {
	if strings.HasPrefix(target, "/") {
		return target
	}
	if _, rest, ok := strings.Cut(target, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
		return "/"
	}
	return target
}

// addressOf returns the address in the text: alone, with a port, or the last of a list such as
// X-Forwarded-For. An invalid one is absent.
func addressOf(text string) netip.Addr {
	if i := strings.LastIndexByte(text, ','); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	if address, err := netip.ParseAddr(text); err == nil {
		return address
	}
	withPort, _ := netip.ParseAddrPort(text)
	return withPort.Addr()
}

// clock parses times. It remembers the last one, since lines of one second follow each other.
type clock struct {
	text   string
	micros int64
}

// clfTime is the time of the common log format.
const clfTime = "02/Jan/2006:15:04:05 -0700"

// layouts are the formats of times that are texts. A time without a zone is UTC.
var layouts = []string{
	time.RFC3339, clfTime, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 -07:00",
}

var errTime = errors.New("must be RFC 3339, a number since 1970, or like 02/Jan/2006:15:04:05 -0700 or 2006-01-02 15:04:05")

func (c *clock) parse(text string) (int64, error) {
	if text == c.text && text != "" {
		return c.micros, nil
	}
	micros, err := parseTime(text)
	if err != nil {
		return 0, fmt.Errorf("time %q: %w", text, err)
	}
	c.text, c.micros = strings.Clone(text), micros
	return micros, nil
}

func parseTime(text string) (int64, error) {
	if strings.IndexByte(text, ':') < 0 { // no clock time, so a number
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, errTime
		}
		for range 3 {
			if n >= 1e11 { // milliseconds, microseconds or nanoseconds
				n /= 1000
			}
		}
		return inRange(int64(n * 1e6))
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil { // fractions are accepted, too
			return inRange(t.UnixMicro())
		}
	}
	return 0, errTime
}

// inRange rejects times outside of the years 1970 to 2200, for which states would overflow.
func inRange(micros int64) (int64, error) {
	if micros < 0 || micros > 7_258_118_400_000_000 {
		return 0, errTime
	}
	return micros, nil
}
