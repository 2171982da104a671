// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// number formats a number with separators, as in 1,234.
func number[T int | int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// millis formats a time as policies do: "1h 30m". It rounds to seconds above ten seconds, to minutes
// above an hour, and to hours above two days.
func millis(n int64) string {
	d := time.Duration(n) * time.Millisecond
	switch {
	case d == 0:
		return "0s"
	case d < time.Second:
		return d.String()
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		d = d.Round(time.Second)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Round(time.Hour)
	}
	var text []string
	for _, unit := range [...]struct {
		length time.Duration
		name   string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if count := d / unit.length; count > 0 {
			text = append(text, strconv.FormatInt(int64(count), 10)+unit.name)
			d %= unit.length
		}
	}
	return strings.Join(text, " ")
}

// date formats a time as in "2 Jan 2026, 15:04 UTC".
func date(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04") + " UTC" }

// percent formats a share, 0..1.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

// maxShownPart is how many characters of a part of a key a list shows.
const maxShownPart = 60

// listedParts returns the parts of a listed key, of which only the beginning is known if it is cut.
func listedParts(key []string, cut bool) []string {
	parts := make([]string, len(key))
	for i, part := range key {
		parts[i] = visible(part)
		if runes := []rune(parts[i]); len(runes) > maxShownPart {
			parts[i] = string(runes[:maxShownPart-1]) + "…"
		}
	}
	if len(parts) == 0 {
		parts = []string{"(shared)"}
	}
	if cut {
		parts[len(parts)-1] += "…"
	}
	return parts
}

// visible returns the part of a key, quoted if it has characters that are not printable, such as those
// that change the direction of text, or leading or trailing spaces. Clients choose it.
func visible(part string) string {
	quoted := strconv.Quote(part)
	switch {
	case part == "":
		return "(missing)"
	case strings.TrimSpace(part) == part && strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) == part:
		return part
	default:
		return quoted
	}
}

// why returns why the policy does not apply.
func why(m *httptypes.NearMiss) string {
	unverified := ""
	if m.Unverified {
		unverified = "; its expression was not evaluated"
	}
	switch m.Reason {
	case limiter.NearDisabled:
		return "its mode is Disabled" + unverified
	case limiter.NearMismatch:
		return "another value of " + string(m.Field) + unverified
	case limiter.NearNotLoaded:
		return "not loaded: " + m.Detail
	case limiter.NearByName: // removed by RemoveByName
	}
	return string(m.Reason)
}
