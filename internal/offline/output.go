// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Output is the format that -o selects: "" for people, json or yaml for programs.
type Output string

// AddFlag adds the flag --output.
func (o *Output) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "", "format for programs: json or yaml (default: text for people)")
}

// Validate returns an error for an unknown format.
func (o *Output) Validate() error {
	switch *o {
	case "", "json", "yaml":
		return nil
	}
	return fmt.Errorf("-o %q: must be json or yaml", *o)
}

// Answer is what a command has found out.
type Answer struct {
	// Body is the answer as JSON.
	Body []byte
	// Text writes it for people.
	Text func(w io.Writer) error
}

// Write writes the answer in the format.
func (o *Output) Write(w io.Writer, a Answer) error {
	switch *o {
	case "json":
		var out bytes.Buffer
		if err := json.Indent(&out, bytes.TrimSpace(a.Body), "", "  "); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, out.String())
		return err
	case "yaml":
		out, err := yaml.JSONToYAML(a.Body)
		if err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	}
	return a.Text(w)
}

// WriteValue writes the value for programs, or its text.
func (o *Output) WriteValue(w io.Writer, value any, text func(io.Writer) error) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return o.Write(w, Answer{Body: body, Text: text})
}

// Line returns what writes one line.
func Line(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	}
}
