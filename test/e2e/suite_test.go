// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the image of Weir in pods of a real cluster: the cluster of KUBECONFIG, or a
// temporary one on this machine.
package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

const root = "../.."

// onlyInAll labels specs that only `make e2e SPECS=all` runs, because they take long and a change rarely breaks them.
const onlyInAll = "all"

// The images of the tests. On a cluster with other nodes than this machine they must be
// available under the names in WEIR_IMAGE, WEIR_LATER_IMAGE, WEIR_CLIENT_IMAGE, REDIS_IMAGE,
// ENVOY_GATEWAY_IMAGE and ENVOY_IMAGE.
var (
	weirImage = environment("WEIR_IMAGE", "localhost/weir:e2e")
	// laterImage is the program of a later release: see testdata/later.go.
	laterImage  = environment("WEIR_LATER_IMAGE", "localhost/weir:e2e-later")
	clientImage = environment("WEIR_CLIENT_IMAGE", "localhost/weir-client:e2e")
	redisImage  = environment("REDIS_IMAGE", "localhost/redis:7.0.15")
	// hack/gateway/build.sh builds the images and the chart of Envoy Gateway.
	envoyGatewayImage = environment("ENVOY_GATEWAY_IMAGE", "localhost/envoy-gateway:e2e")
	envoyImage        = environment("ENVOY_IMAGE", "localhost/envoy:e2e")
)

// ownCluster is the state folder of the temporary cluster, "" without one; localCluster the
// one of the cluster of this machine, "" if the nodes are other machines.
var ownCluster, localCluster string

func TestE2E(t *testing.T) {
	if os.Getenv("WEIR_E2E") == "" {
		t.Skip("needs a cluster: run `make e2e`")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "End to end")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		dir, err := filepath.Abs(filepath.Join(root, "bin", "cluster", "e2e"))
		Expect(err).NotTo(HaveOccurred())
		By("starting a cluster")
		ownCluster = dir
		do(ctx, []string{"CLUSTER_DIR=" + dir}, "hack/cluster/up.sh")
		kubeconfig = filepath.Join(dir, "admin.conf")
		Expect(os.Setenv("KUBECONFIG", kubeconfig)).To(Succeed())
	}
	state := filepath.Dir(kubeconfig)
	if _, err := os.Stat(filepath.Join(state, "containerd.sock")); err != nil {
		By("using the given images: the nodes are other machines")
		return
	}
	localCluster = state
	By("building images and loading them")
	do(ctx, []string{"GOFLAGS=-overlay=" + laterRelease()}, "hack/image/program.sh", "./cmd/weir", laterImage, "-cmd", "manager")
	loadImages(ctx, archive("weir"))
	do(ctx, nil, "make", "image", "IMAGE="+weirImage)
	do(ctx, nil, "hack/image/program.sh", "./test/e2e/client", clientImage, "-cmd", "wait")
	loadImages(ctx, archive("weir"), archive("client"))
}, NodeTimeout(20*time.Minute))

var _ = AfterSuite(func(ctx SpecContext) {
	if ownCluster != "" {
		do(ctx, []string{"CLUSTER_DIR=" + ownCluster}, "hack/cluster/down.sh")
	}
}, NodeTimeout(2*time.Minute))

// laterRelease returns a file for go build -overlay that adds testdata/later.go to package plan.
func laterRelease() string {
	GinkgoHelper()
	absolute := func(file string) string {
		path, err := filepath.Abs(file)
		Expect(err).NotTo(HaveOccurred())
		return path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		absolute(root + "/internal/limiter/plan/later.go"): absolute("testdata/later.go"),
	}})
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "overlay.json")
	Expect(os.WriteFile(file, overlay, 0o600)).To(Succeed())
	return file
}

// loadImages loads images into the cluster of this machine.
func loadImages(ctx SpecContext, archives ...string) {
	GinkgoHelper()
	do(ctx, []string{"CLUSTER_DIR=" + localCluster}, "hack/cluster/load.sh", archives...)
}

// do runs a command in the root of the repository.
func do(ctx SpecContext, env []string, name string, args ...string) {
	GinkgoHelper()
	command := testenv.CommandContext(ctx, name, args...)
	command.Dir = root
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(command.Run()).To(Succeed(), "%s %v", name, args)
}

// archive returns the path of the image archive that hack/image/program.sh writes.
func archive(program string) string {
	return filepath.Join("bin", "images", program+"-linux-"+runtime.GOARCH+".tar")
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
