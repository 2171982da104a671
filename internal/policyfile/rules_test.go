// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// place is a field or an item that a mutation may change.
type place struct {
	kind string // the path without indexes
	get  func() any
	set  func(any)
	drop func() // nil for an item
}

// placesOf returns all places within the value, which is at the path.
func placesOf(path string, value any) (places []place) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := path + "." + name
			places = append(places, place{
				at, func() any { return value[name] }, func(v any) { value[name] = v }, func() { delete(value, name) },
			})
			places = append(places, placesOf(at, value[name])...)
		}
	case []any:
		for i := range value {
			at := path + "[]"
			places = append(places, place{at, func() any { return value[i] }, func(v any) { value[i] = v }, nil})
			places = append(places, placesOf(at, value[i])...)
		}
	}
	return places
}

// samples returns the objects of the samples, by kind.
func samples(g *WithT) map[string][]map[string]any {
	byKind := map[string][]map[string]any{}
	root := "../../config/samples"
	var paths []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		g.Expect(err).NotTo(HaveOccurred())
		paths = append(paths, found...)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			var object map[string]any
			asJSON, err := yaml.YAMLToJSON([]byte(text))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(json.Unmarshal(asJSON, &object)).To(Succeed()) // keeps integers exact
			if kind, _ := object["kind"].(string); slices.Contains(kinds, kind) {
				byKind[kind] = append(byKind[kind], object)
			}
		}
	}
	return byKind
}

// oddValues are values at the edges of rules.
var oddValues = []any{
	"", "a", "A_b", "90d", "1h", "0s", "1ms", "768h", "Week", "GCRA", "SlidingLog", "TokenBucket", "Concurrency", "Shadow",
	"Path", "Header", "*", "/a/*", "*.example", "10.0.0.0/8", "10.0.0.1/8", "::/0", "get", "GET",
	int64(0), int64(1), int64(2), int64(1000), int64(1 << 40), true, false,
	[]any{},
	map[string]any{},
}

// Random changes of the samples: what the rules find valid is what the validator of the API server accepts.
func TestRulesAcceptAsTheAPIServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	byKind := samples(g)
	for _, kind := range kinds {
		s, err := schemaOf(kind)
		g.Expect(err).NotTo(HaveOccurred())
		random := rand.New(rand.NewPCG(1, 2))
		pool := map[string][]any{}
		for _, object := range byKind[kind] {
			for _, at := range placesOf("", object["spec"]) {
				pool[at.kind] = append(pool[at.kind], at.get())
			}
		}
		pools := slices.Sorted(maps.Keys(pool))
		g.Expect(byKind[kind]).NotTo(BeEmpty())
		accepted, rejected := 0, 0
		for i := range 1_500 {
			object := runtime.DeepCopyJSON(byKind[kind][i%len(byKind[kind])])
			for range random.IntN(4) {
				mutate(random, object, pool, pools)
			}
			if len(s.formErrors(object)) > 0 {
				continue
			}
			errs, left := s.judge().Validate(t.Context(), nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
			budget := uint64(celconfig.RuntimeCELCostBudget)
			g.Expect(s.rules.hold(object, &budget)).To(Equal(len(errs) == 0), "%v: %v", object, errs)
			if len(errs) == 0 {
				g.Expect(int64(budget)).To(Equal(left), "the costs are equal too")
				accepted++
			} else {
				rejected++
			}
		}
		g.Expect(accepted).To(BeNumerically(">", 100), kind)
		g.Expect(rejected).To(BeNumerically(">", 25), kind)
	}
}

// mutate changes one place of the object to an odd value or to the value of another sample, removes it, or adds a field.
func mutate(random *rand.Rand, object map[string]any, pool map[string][]any, pools []string) {
	places := placesOf("", object["spec"])
	if len(places) == 0 {
		return
	}
	at := places[random.IntN(len(places))]
	switch choice := random.IntN(7); {
	case choice == 0:
		at.set(runtime.DeepCopyJSONValue(oddValues[random.IntN(len(oddValues))]))
	case choice == 1 && at.drop != nil:
		at.drop()
	case choice <= 3 && len(pool[at.kind]) > 0:
		other := pool[at.kind]
		at.set(runtime.DeepCopyJSONValue(other[random.IntN(len(other))]))
	case choice == 4:
		if fields, ok := at.get().(map[string]any); ok {
			fields["unknown"] = true
		}
	default: // add a field that another sample has
		fields, ok := at.get().(map[string]any)
		kind := pools[random.IntN(len(pools))]
		if name, isField := strings.CutPrefix(kind, at.kind+"."); ok && isField && !strings.ContainsAny(name, ".[") {
			fields[name] = runtime.DeepCopyJSONValue(pool[kind][random.IntN(len(pool[kind]))])
		}
	}
}
