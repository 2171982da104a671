// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Format is how a result is written.
type Format string

// The formats.
const (
	FormatText   Format = "text"
	FormatJSON   Format = "json"
	FormatGitHub Format = "github"
)

// Formats are all formats.
var Formats = []Format{FormatText, FormatJSON, FormatGitHub}

// Write writes the result in the format. Color is for text only.
func (r *Result) Write(w io.Writer, format Format, color bool) error {
	switch format {
	case FormatJSON:
		return r.writeJSON(w)
	case FormatGitHub:
		return r.writeGitHub(w)
	default:
		return r.writeText(w, color)
	}
}

func notChecked(namespace string) string {
	return fmt.Sprintf("tenancy of Namespace %s is not checked: add its manifest to the files", namespace)
}

// text returns the message for people.
func (f *Finding) text() string {
	p := policyfile.Problem{Policy: f.Policy, Object: f.Object, Text: f.Message, Suggestion: f.Suggestion}
	return p.Message()
}

// colors are the sequences of terminals for each severity.
var colors = map[Severity]string{SeverityError: "\x1b[31m", SeverityWarning: "\x1b[33m"}

func (r *Result) writeText(w io.Writer, color bool) error {
	var out bytes.Buffer
	for i := range r.Findings {
		f := &r.Findings[i]
		severity := string(f.Severity)
		if color {
			severity = colors[f.Severity] + severity + "\x1b[0m"
		}
		fmt.Fprintf(&out, "%s:%d:%d: %s: %s\n", f.File, f.Line, f.Column, severity, message.Printable(strings.ReplaceAll(f.text(), "\n", " ")))
	}
	for _, name := range r.NotChecked {
		fmt.Fprintln(&out, notChecked(name))
	}
	fmt.Fprintf(&out, "%s, %s, %s", count(r.Count(SeverityError), "error", "errors"),
		count(r.Count(SeverityWarning), "warning", "warnings"), count(r.valid(), "valid policy", "valid policies"))
	if n := len(r.KeyGroups); n > 0 {
		fmt.Fprintf(&out, ", %s", count(n, "valid key group", "valid key groups"))
	}
	if n := len(r.Exceptions); n > 0 {
		fmt.Fprintf(&out, ", %s", count(n, "valid exception", "valid exceptions"))
	}
	fmt.Fprintln(&out)
	_, err := w.Write(out.Bytes())
	return err
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (r *Result) writeJSON(w io.Writer) error {
	findings, unchecked := r.Findings, r.NotChecked
	if findings == nil {
		findings = []Finding{}
	}
	if unchecked == nil {
		unchecked = []string{}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		Valid             int       `json:"valid"`
		KeyGroups         int       `json:"keyGroups"`
		Exceptions        int       `json:"exceptions"`
		Errors            int       `json:"errors"`
		Warnings          int       `json:"warnings"`
		TenancyNotChecked []string  `json:"tenancyNotChecked"`
		Findings          []Finding `json:"findings"`
	}{r.valid(), len(r.KeyGroups), len(r.Exceptions), r.Count(SeverityError), r.Count(SeverityWarning), unchecked, findings})
}

// In workflow commands, the characters with a meaning are escaped.
var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (r *Result) writeGitHub(w io.Writer) error {
	var out bytes.Buffer
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&out, "::%s file=%s,line=%d,col=%d::%s\n",
			f.Severity, githubProperty.Replace(f.File), f.Line, f.Column, githubData.Replace(f.text()))
	}
	for _, name := range r.NotChecked {
		fmt.Fprintf(&out, "::notice::%s\n", githubData.Replace(notChecked(name)))
	}
	_, err := w.Write(out.Bytes())
	return err
}
