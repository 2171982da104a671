// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package duration reads the durations that people type, which may have days and weeks.
package duration

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Form describes what Parse accepts.
const Form = "must be a duration, such as 500ms, 10s, 1m or 7d"

// Hours of the units that time.ParseDuration does not have.
var hoursOf = map[string]float64{"d": 24, "w": 7 * 24}

var longUnit = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)([dw])`)

// InHours returns the text with its days and weeks written in hours: "168h" for "7d". A day has
// 24 hours. Other texts stay the same.
func InHours(text string) string {
	return longUnit.ReplaceAllStringFunc(text, func(part string) string {
		unit := part[len(part)-1:]
		number, err := strconv.ParseFloat(part[:len(part)-1], 64)
		if err != nil {
			return part
		}
		return strconv.FormatFloat(number*hoursOf[unit], 'f', -1, 64) + "h"
	})
}

// Hint returns "1.5h: write 1h30m" for a duration of whole milliseconds with fractions, days or weeks, for places
// where only whole numbers of hours and smaller units are valid; "" for all other texts.
func Hint(text string) string {
	d, err := Parse(text)
	if err != nil || d <= 0 || d%time.Millisecond != 0 || !strings.ContainsAny(text, ".dw") {
		return ""
	}
	return text + ": write " + plan.FormatMillis(d.Milliseconds())
}

// Parse parses a duration as time.ParseDuration does, with the additional units d and w.
func Parse(text string) (time.Duration, error) {
	d, err := time.ParseDuration(InHours(text))
	if err != nil {
		return 0, errors.New(Form)
	}
	return d, nil
}

// Var adds a flag whose value Parse parses. The variable gets the default.
func Var(flags *pflag.FlagSet, d *time.Duration, name string, byDefault time.Duration, usage string) {
	*d = byDefault
	flags.Var((*value)(d), name, usage)
}

// value implements pflag.Value.
type value time.Duration

func (v *value) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*v = value(d)
	}
	return err
}

// String returns the duration. Of 0 it omits the unit: the help then shows no default.
func (v *value) String() string {
	if *v == 0 {
		return "0"
	}
	return time.Duration(*v).String()
}

// Type implements pflag.Value.
func (*value) Type() string { return "duration" }
