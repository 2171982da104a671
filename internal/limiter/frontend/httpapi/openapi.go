// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	_ "embed" // for openapi.yaml
	"net/http"
)

// typeYAML is the type of the document (RFC 9512).
const typeYAML = "application/yaml"

// openAPI describes every path in OpenAPI 3.1. It includes the state calls also where they
// are turned off.
//
//go:embed openapi.yaml
var openAPI []byte

func (h *Handler) openAPI(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, typeYAML, openAPI)
}
