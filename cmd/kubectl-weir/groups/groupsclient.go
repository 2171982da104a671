// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/policies"
	"github.com/weir-dev/weir/internal/reject"
)

const (
	// keyGroupsPage is how many key groups one call of the API server returns.
	keyGroupsPage = 100
	// importPoll is how often an import lists its objects, which may be megabytes, until the replicas have loaded them.
	importPoll = time.Second
	// concurrentApplies is how many objects an import applies at the same time.
	concurrentApplies = 8
	// onlyMetadata makes the API server respond with the metadata of an object, without its keys.
	onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// keyGroups is a client for the key groups of one Namespace.
type keyGroups struct {
	client    *rest.RESTClient
	namespace string
}

func keyGroupsOf(c *connect.Connection) (*keyGroups, error) {
	if c.Address != "" {
		return nil, errors.New("--address: the command reads and changes objects of a cluster")
	}
	namespace, err := c.Namespace()
	if err != nil {
		return nil, err
	}
	client, err := keyGroupsClient(c)
	if err != nil {
		return nil, connect.AsFailed(err)
	}
	return &keyGroups{client: client, namespace: namespace}, nil
}

// keyGroupsClient returns a client of Weir's API without a bound on its calls a second: an import writes thousands of objects,
// and the API server has its own flow control. It decodes lists of keys in half the time of a dynamic client.
func keyGroupsClient(c *connect.Connection) (*rest.RESTClient, error) {
	config, err := c.RestConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.QPS, config.APIPath, config.GroupVersion = -1, "/apis", &v1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return client, reject.Wrap("--kubeconfig", err)
}

func (k *keyGroups) of(request *rest.Request) *rest.Request {
	return request.Namespace(k.namespace).Resource("ratelimitkeygroups")
}

// list returns the key groups with these labels, and the version of the list.
func (k *keyGroups) list(ctx context.Context, selector string) (all []v1alpha1.RateLimitKeyGroup, version string, err error) {
	for next := ""; ; {
		page := &v1alpha1.RateLimitKeyGroupList{}
		options := &metav1.ListOptions{LabelSelector: selector, Limit: keyGroupsPage, Continue: next}
		if err := k.of(k.client.Get()).VersionedParams(options, metav1.ParameterCodec).Do(ctx).Into(page); err != nil {
			return nil, "", err
		}
		all = append(all, page.Items...)
		if next = page.Continue; next == "" {
			return all, page.ResourceVersion, nil
		}
	}
}

// make applies the changed objects, then removes the others.
func (k *keyGroups) make(ctx context.Context, change *groupChange, dryRun bool) error {
	// The API server rejects unknown fields in any apply. To validate them too, it would parse the keys once more.
	applying, removing := &metav1.PatchOptions{FieldManager: policies.FieldManager, FieldValidation: metav1.FieldValidationIgnore}, &metav1.DeleteOptions{}
	if dryRun {
		applying.DryRun, removing.DryRun = []string{metav1.DryRunAll}, []string{metav1.DryRunAll}
	}
	appliers, applied := errgroup.WithContext(ctx)
	appliers.SetLimit(concurrentApplies)
	for _, group := range change.apply {
		appliers.Go(func() error { return k.apply(applied, group, applying) })
	}
	if err := appliers.Wait(); err != nil {
		return err
	}
	for _, name := range change.remove {
		if err := k.of(k.client.Delete()).Name(name).Body(removing).Do(ctx).Error(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (k *keyGroups) apply(ctx context.Context, group *v1alpha1.RateLimitKeyGroup, options *metav1.PatchOptions) error {
	data, err := json.Marshal(group)
	if err == nil {
		err = k.of(k.client.Patch(types.ApplyPatchType)).Name(group.Name).VersionedParams(options, metav1.ParameterCodec).
			SetHeader("Accept", onlyMetadata).Body(data).Do(ctx).Error()
	}
	return reject.Wrap(group.Name, err)
}

// await waits until every replica has loaded the applied objects.
func (k *keyGroups) await(ctx context.Context, progress io.Writer, change *groupChange) error {
	l := loading{waiting: map[string]bool{}, reason: "no leader has processed them"}
	for _, group := range change.apply {
		l.waiting[group.Name] = true
		l.selector = importedLabel + "=" + group.Spec.Group
	}
	err := policies.PollLoaded(ctx, progress, "them", importPoll, func(ctx context.Context) (bool, error) {
		if len(l.waiting) == 0 {
			return true, nil
		}
		all, version, err := k.list(ctx, l.selector)
		if err != nil {
			return false, err
		}
		for i := range all {
			l.observe(&all[i])
		}
		k.follow(ctx, version, &l)
		return len(l.waiting) == 0, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("the objects are stored, but not every replica has loaded %d of them after %s: %s", len(l.waiting), connect.Short(policies.PublishTimeout), l.reason)
	}
	return err
}

// follow watches the objects from that version on, for at most importPoll. It only shortens the wait for the next list, so
// its errors do no harm.
func (k *keyGroups) follow(ctx context.Context, version string, l *loading) {
	ctx, cancel := context.WithTimeout(ctx, importPoll)
	defer cancel()
	options := &metav1.ListOptions{LabelSelector: l.selector, ResourceVersion: version, Watch: true}
	changes, err := k.of(k.client.Get()).VersionedParams(options, metav1.ParameterCodec).Watch(ctx)
	if err != nil {
		return
	}
	defer changes.Stop()
	for len(l.waiting) > 0 {
		select {
		case <-ctx.Done():
			return
		case event, open := <-changes.ResultChan():
			if !open {
				return
			}
			if group, ok := event.Object.(*v1alpha1.RateLimitKeyGroup); ok {
				l.observe(group)
			}
		}
	}
}

// loading are the applied objects that not every replica is known to have loaded.
type loading struct {
	selector string // of labels, for these and other objects of imports
	waiting  map[string]bool
	reason   string // why one of them is not loaded
}

func (l *loading) observe(g *v1alpha1.RateLimitKeyGroup) {
	if isLoaded(g) {
		delete(l.waiting, g.Name)
	} else if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady); l.waiting[g.Name] && c != nil && c.ObservedGeneration == g.Generation {
		l.reason = g.Name + ": " + c.Message
	}
}
