// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifest is one object of a file with manifests, as JSON.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	text json.RawMessage
	// place is the file and the line of its document or of its item in a list, as "a.yaml:3"; empty without a name of the file.
	place string
}

// id returns the kind, the namespace and the name for notes.
func (m *manifest) id() string { return m.Kind + " " + m.Namespace + "/" + m.Name }

// problem returns the error with the place of the manifest.
func (m *manifest) problem(err error) error {
	return fmt.Errorf("%s%s: %w", prefixOf(m.place), m.id(), plain(err))
}

// decode decodes the manifest.
func (m *manifest) decode(into any) error {
	if err := json.Unmarshal(m.text, into); err != nil {
		return m.problem(err)
	}
	return nil
}

// readManifests reads all objects of the documents, and the objects in lists. Objects without a namespace
// are in the given one. It notes documents that are a YAML list, such as a patch of kustomize, and lets the notes
// of an object begin with its place.
func (c *collector) readManifests(files []File, namespace string) (found []*manifest, err error) {
	for _, file := range files {
		documents := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file.Data)))
		for line := 1; ; {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			place := ""
			if file.Name != "" {
				place = file.Name + ":" + strconv.Itoa(line)
			}
			var text []byte
			if err == nil {
				text, err = yaml.YAMLToJSONStrict(document)
			}
			if err == nil && bytes.HasPrefix(text, []byte("[")) {
				c.addNote(Note{At: place, Text: "skipped a YAML list, which is not a manifest"})
			} else if err == nil {
				found, err = appendManifests(found, text, namespace, place, itemPlaces(file.Name, line, document))
			}
			if err != nil {
				return nil, fmt.Errorf("%snot a manifest: %w", prefixOf(place), plain(err))
			}
			line += bytes.Count(document, []byte("\n")) + 1 // and the separator
		}
	}
	places := map[string]string{}
	for _, m := range found {
		places[m.id()] = prefixOf(m.place)
	}
	c.place = func(at string) string {
		id, _, _ := strings.Cut(at, ": ")
		return places[id] + at
	}
	return found, nil
}

// itemPlaces returns the places of the items of a list in a document that begins at the line.
func itemPlaces(file string, line int, document []byte) (places []string) {
	var root yamlv3.Node
	if file == "" || yamlv3.Unmarshal(document, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	if items := member(root.Content[0], "items"); items != nil {
		for _, item := range items.Content {
			places = append(places, file+":"+strconv.Itoa(line-1+item.Line))
		}
	}
	return places
}

// appendManifests appends the object in the text, or the objects of a list with the places of its items.
func appendManifests(found []*manifest, text json.RawMessage, namespace, place string, items []string) ([]*manifest, error) {
	if bytes.Equal(text, []byte("null")) {
		return found, nil // only comments
	}
	m := &manifest{text: text, place: place}
	list := struct {
		Items []json.RawMessage `json:"items"`
	}{}
	if err := errors.Join(json.Unmarshal(text, m), json.Unmarshal(text, &list)); err != nil {
		return nil, err
	}
	m.Namespace = cmp.Or(m.Namespace, namespace)
	if list.Items == nil {
		return append(found, m), nil
	}
	for i, item := range list.Items {
		if i < len(items) {
			place = items[i]
		}
		var err error
		if found, err = appendManifests(found, item, namespace, place, nil); err != nil {
			return nil, err
		}
	}
	return found, nil
}
