// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/expression"
)

// kuadrantAttributes are Kuadrant's well-known attributes that policies know by another name. The
// path of Envoy has the query, the path of policies has not.
var kuadrantAttributes = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`\brequest\.url_path\b`), "request.path"},
	{regexp.MustCompile(`\bsource\.remote_address\b`), "remoteAddress"},
	{regexp.MustCompile(`\bauth\.identity\.(?:username|userid|sub)\b`), "principal"},
}

// kuadrantExpression returns the expression with the names that policies use.
func kuadrantExpression[T expression.Result](text string) (string, error) {
	converted := strings.TrimSpace(text)
	for _, a := range kuadrantAttributes {
		converted = a.from.ReplaceAllString(converted, a.to)
	}
	if _, err := expression.Compile[T](converted); err != nil {
		return "", fmt.Errorf("%q cannot be converted: %w", text, err)
	}
	return converted, nil
}

// conditions returns the expression for all predicates.
func (c *kuadrantConverter) conditions(at string, when []kuadrantWhen) (string, error) {
	var conditions []string
	for i, w := range when {
		condition, err := kuadrantExpression[bool](w.Predicate)
		if err != nil {
			return "", err
		}
		if strings.Contains(w.Predicate, "request.path") {
			c.note(fmt.Sprintf("%s.when[%d]", at, i), "request.path has no query in policies")
		}
		conditions = append(conditions, "("+condition+")")
	}
	return allOf(conditions), nil
}

// headerExpression is the value of one header.
var headerExpression = regexp.MustCompile(`^request\.headers(?:\[(?:'([^'\\]+)'|"([^"\\]+)")\]|\.([A-Za-z_]\w*))$`)

// counters returns the key for the counters of the limit.
func (c *kuadrantConverter) counters(at string, limit *kuadrantLimit) (parts []v1alpha1.KeyPart, err error) {
	for i, counter := range limit.Counters {
		cel, err := kuadrantExpression[string](counter.Expression)
		if err != nil {
			return nil, err
		}
		switch header := headerExpression.FindStringSubmatch(cel); {
		case header != nil:
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartHeader, Header: &v1alpha1.HeaderKey{Name: oneOf(header[1:])}})
		case cel == "remoteAddress":
			parts = append(parts, v1alpha1.KeyPart{
				Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{IPv6PrefixLength: new(int32(128))},
			})
		case cel == "principal":
			c.note(fmt.Sprintf("%s.counters[%d]", at, i), "the principal must be this identity: see --principal-header")
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartPrincipal, Principal: &v1alpha1.PrincipalKey{}})
		default:
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}})
		}
	}
	return parts, nil
}
