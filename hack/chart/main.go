// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chart writes the table of values of a Helm chart into its README.md, between
// two markers: chart FOLDER. Every value in values.yaml with a comment is a row.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	begin = "<!-- values: `make manifests` writes this table from values.yaml -->\n"
	end   = "<!-- end of values -->\n"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the folder of a chart, got %d arguments", len(args))
	}
	values, err := os.ReadFile(filepath.Join(args[0], "values.yaml")) //nolint:gosec // the folder is an argument
	if err != nil {
		return err
	}
	table, err := tableOf(values)
	if err != nil {
		return err
	}
	path := filepath.Join(args[0], "README.md")
	readme, err := os.ReadFile(path) //nolint:gosec // the folder is an argument
	if err != nil {
		return err
	}
	updated, err := insert(string(readme), table)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(updated), 0o644) //nolint:gosec // a file of the repository
}

// insert replaces the text between the markers with the table.
func insert(readme, table string) (string, error) {
	before, rest, found := strings.Cut(readme, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("has no %q or no %q", begin, end)
	}
	return before + begin + "\n" + table + "\n" + end + after, nil
}

// tableOf returns the Markdown table of the values in YAML.
func tableOf(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	if len(document.Content) == 0 {
		return "", nil
	}
	var table strings.Builder
	table.WriteString("| value | default | |\n|---|---|---|\n")
	err := describe(&table, "", document.Content[0])
	return table.String(), err
}

// describe writes the rows of a mapping.
func describe(table *strings.Builder, prefix string, mapping *yaml.Node) error {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		comment := lastParagraph(key.HeadComment)
		switch {
		case comment != "":
			text, err := formatValue(value)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			fmt.Fprintf(table, "| `%s` | `%s` | %s |\n", path, text, strings.ReplaceAll(comment, "|", `\|`))
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			if err := describe(table, path+".", value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: has no comment in values.yaml", path)
		}
	}
	return nil
}

// lastParagraph returns the last paragraph of a comment, which describes the value. The
// ones before it describe the file.
func lastParagraph(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	var words []string
	for line := range strings.SplitSeq(paragraphs[len(paragraphs)-1], "\n") {
		words = append(words, strings.Fields(strings.TrimPrefix(line, "#"))...)
	}
	return strings.Join(words, " ")
}

// formatValue returns a value as JSON on one line.
func formatValue(node *yaml.Node) (string, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}
