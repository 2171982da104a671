// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"net/http"
)

// Probe returns an error unless a GET of the URL has the status 200.
func Probe(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
