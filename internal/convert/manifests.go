// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifest is one object of a file with manifests, as JSON.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	text json.RawMessage
}

// id returns the kind, the namespace and the name for notes.
func (m *manifest) id() string { return m.Kind + " " + m.Namespace + "/" + m.Name }

// readManifests reads all objects of the documents, and those in lists. Objects without a namespace
// are in the given one.
func readManifests(data []byte, namespace string) (found []*manifest, err error) {
	documents := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		var text []byte
		if err == nil {
			text, err = yaml.YAMLToJSONStrict(document)
		}
		if err == nil {
			found, err = appendManifests(found, text, namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
	}
}

func appendManifests(found []*manifest, text json.RawMessage, namespace string) ([]*manifest, error) {
	if bytes.Equal(text, []byte("null")) {
		return found, nil // only comments
	}
	m := &manifest{text: text}
	list := struct {
		Items []json.RawMessage `json:"items"`
	}{}
	if err := errors.Join(json.Unmarshal(text, m), json.Unmarshal(text, &list)); err != nil {
		return nil, fmt.Errorf("not a manifest: %w", err)
	}
	if m.Namespace == "" {
		m.Namespace = namespace
	}
	if list.Items == nil {
		return append(found, m), nil
	}
	for _, item := range list.Items {
		var err error
		if found, err = appendManifests(found, item, namespace); err != nil {
			return nil, err
		}
	}
	return found, nil
}
