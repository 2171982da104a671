// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// problem is a problem document as all frontends send it.
type problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Code    string `json:"code"`
	Context struct {
		RetryAfter int `json:"retryAfter"`
	} `json:"context"`
}

// errorPrefix begins the responses that replaceError replaces.
var errorPrefix = []byte("HTTP/1.1 ")

// replaceError returns the problem document for a response of net/http to a request that it cannot
// read; nil for any other response. What a client sent is never a 5xx.
func replaceError(response []byte) []byte {
	line, ok := bytes.CutPrefix(response, errorPrefix)
	if !ok || len(line) < 3 {
		return nil
	}
	status, err := strconv.Atoi(string(line[:3]))
	if err != nil || status < 400 {
		return nil
	}
	_, body, _ := strings.Cut(string(response), "\r\n\r\n")
	if status >= 500 {
		status = http.StatusBadRequest
	}
	return newProblem(status, detailOf(status, body))
}

// detailOf returns a sentence about the text of a response of net/http, such as "400 Bad Request:
// missing required Host header".
func detailOf(status int, text string) string {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return fmt.Sprintf("The headers are larger than %d KiB.", maxHeaderBytes>>10)
	case http.StatusExpectationFailed:
		return "The expectation is not supported."
	}
	detail := "the request is malformed"
	if _, reason, ok := strings.Cut(text, ": "); ok {
		detail = reason
	} else if text == "Unsupported transfer encoding" {
		detail = "the transfer encoding is not supported"
	}
	return strings.ToUpper(detail[:1]) + detail[1:] + "."
}

// newProblem returns a response with a problem document, after which the connection is closed.
func newProblem(status int, detail string) []byte {
	p := problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: "InvalidRequest"}
	if status == http.StatusRequestHeaderFieldsTooLarge {
		p.Code = "HeadersTooLarge"
	}
	body, _ := json.Marshal(p) //nolint:errchkjson // plain data
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, p.Title, len(body)+1, body)
}
