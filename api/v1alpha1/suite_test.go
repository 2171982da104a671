// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/test/testenv/kube"
)

// api is a client of a real API server with the generated CustomResourceDefinition.
var api client.Client

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API v1alpha1")
}

var _ = BeforeSuite(func() {
	log.SetLogger(logr.Discard())
	api = kube.StartAPIServer(GinkgoTB()).Client()
})
