// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

var errAmbiguous = fmt.Errorf("%w: servers may read the query or the cookies in different ways", ErrUnreadable)

// valueMap returns the map of a query or of cookies. A value that servers may read in different ways is an error, also
// outside a key: it could select another override for the server than for Weir.
func valueMap(values *plan.Values) ref.Val {
	return textMap{
		celMap: newLazyMap(func() celMap {
			all, ok := values.All()
			if !ok {
				return largeMap{size: types.WrapErr(errAmbiguous), err: errAmbiguous}
			}
			return mapOf(all)
		}),
		lookup: func(name string) (value string, present bool, err error) {
			value, ok := values.Get(name)
			if !ok {
				return "", false, &unreadableError{format: "%q is ambiguous", arguments: []any{name}}
			}
			return value, values.Has(name), nil
		},
	}
}
