// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command rmpods removes all containers and pod sandboxes of the container runtime at
// the given socket, with their processes, mounts and network namespaces.
//
// down.sh runs it because the kubelet leaves its pods running when it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// timeout bounds the whole run.
const timeout = time.Minute

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rmpods SOCKET")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rmpods:", err)
		os.Exit(1)
	}
}

func run(socket string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout) //nolint:forbidigo // the first context
	defer cancel()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	runtime := cri.NewRuntimeServiceClient(connection)
	// Containers first: removing a container kills it, while stopping its sandbox waits
	// until it ends.
	return errors.Join(removeContainers(ctx, runtime), removeSandboxes(ctx, runtime))
}

func removeContainers(ctx context.Context, runtime cri.RuntimeServiceClient) error {
	list, err := runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	var errs []error
	for _, container := range list.GetContainers() {
		_, err := runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: container.GetId()})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func removeSandboxes(ctx context.Context, runtime cri.RuntimeServiceClient) error {
	list, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var errs []error
	for _, sandbox := range list.GetItems() {
		_, stopped := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: sandbox.GetId()})
		_, removed := runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox.GetId()})
		errs = append(errs, stopped, removed)
	}
	return errors.Join(errs...)
}
