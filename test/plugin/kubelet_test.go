// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// podOfWeir creates a ready pod of Weir on a node whose kubelet forwards all ports to the address. The test deletes both
// when it ends.
func podOfWeir(t *testing.T, api ctrlclient.Client, address string) {
	t.Helper()
	g := NewWithT(t)
	kubelet := httptest.NewTLSServer(forwardTo(address))
	t.Cleanup(kubelet.Close)
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(port, 10, 32)
	g.Expect(err).NotTo(HaveOccurred())

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	createUntilEnd(t, api, node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	g.Expect(api.Status().Update(t.Context(), node)).To(Succeed())

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "weir", Labels: map[string]string{"ratelimit.weir.dev/decisions": "true"}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "weir", Image: "weir"}}},
	}
	createUntilEnd(t, api, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	g.Expect(api.Status().Update(t.Context(), pod)).To(Succeed())
}

// forwardTo serves port-forwards as a kubelet does: each connection is two streams, one for data and one for an error.
func forwardTo(address string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, replySent <-chan struct{}) error {
			go func() {
				<-replySent
				defer func() { _ = stream.Close() }()
				if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
					forward(stream, address)
				}
			}()
			return nil
		})
		if conn != nil {
			<-conn.CloseChan()
			_ = conn.Close()
		}
	})
}

// forward copies between the stream and a connection to the address, until one of them ends.
func forward(stream httpstream.Stream, address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.Close()
	}()
	_, _ = io.Copy(stream, conn)
}
