// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// fieldChange is a field of a spec or of a compiled policy that differs. Its values are JSON; "" if the field
// is absent.
type fieldChange struct {
	Field string `json:"field"`
	Was   string `json:"was"`
	Is    string `json:"is"`
}

// ignoredFields differ without a change of the policy.
var ignoredFields = []string{"uid", "generation"}

// changedFields returns the fields that differ between two specs or two plans, sorted.
func changedFields(was, is any) ([]fieldChange, error) {
	before, err := flatten(was)
	if err != nil {
		return nil, err
	}
	after, err := flatten(is)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	var changes []fieldChange
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if before[field] != after[field] && !slices.Contains(ignoredFields, field) {
			changes = append(changes, fieldChange{Field: field, Was: before[field], Is: after[field]})
		}
	}
	return changes, nil
}

// withoutOffsets returns the plan without the offsets of time zones, which follow from their names
// and from when the plan was compiled; nil for nil.
func withoutOffsets(p *plan.Plan) *plan.Plan {
	if p == nil {
		return nil
	}
	stripped := *p
	stripped.Limits = slices.Clone(p.Limits)
	for i := range stripped.Limits {
		if c := stripped.Limits[i].Calendar; c != nil {
			stripped.Limits[i].Calendar = &plan.Calendar{Period: c.Period, TimeZone: c.TimeZone, StartDay: c.StartDay}
		}
	}
	return &stripped
}

// flatten returns the members of the value as JSON, by their paths.
func flatten(value any) (map[string]string, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return nil, err
	}
	values := map[string]string{}
	addValues(values, "", tree)
	return values, nil
}

// addValues adds the values at and below the path. Objects in lists that have a name are known by
// it, so that one that moves does not differ. An empty list is a value: it may mean something else than none.
func addValues(values map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			addValues(values, strings.TrimPrefix(path+"."+name, "."), member)
		}
	case []any:
		if len(value) == 0 {
			values[path] = "[]"
		}
		for i, element := range value {
			index := strconv.Itoa(i)
			if object, ok := element.(map[string]any); ok {
				if name, ok := object["name"].(string); ok {
					index = name
				}
			}
			addValues(values, fmt.Sprintf("%s[%s]", path, index), element)
		}
	default:
		text, _ := json.Marshal(value) //nolint:errchkjson // it was decoded from JSON
		values[path] = string(text)
	}
}
