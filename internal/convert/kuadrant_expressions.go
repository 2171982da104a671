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
	_, err := expression.Compile[T](converted)
	if err != nil && strings.Contains(converted, "auth.") {
		return "", fmt.Errorf("%q cannot be converted: of auth, policies know principal, by --principal-header, and the claims of a JWT: %w", text, err)
	}
	if err != nil {
		return "", fmt.Errorf("%q cannot be converted: %w", text, err)
	}
	return converted, nil
}

// conditions returns an expression for each predicate.
func (c *kuadrantConverter) conditions(at string, when []kuadrantWhen) (conditions []string, err error) {
	for _, w := range when {
		condition, err := kuadrantExpression[bool](w.Predicate)
		if err != nil {
			return nil, err
		}
		c.noteDifferences(at+".when", w.Predicate)
		if strings.Contains(w.Predicate, "request.headers") {
			c.note(at+".when", "%q: a header that is absent is \"\"; in Kuadrant the predicate fails", w.Predicate)
		}
		conditions = append(conditions, "("+condition+")")
	}
	return conditions, nil
}

// noteDifferences notes what the expression reads that has another value in policies.
func (c *kuadrantConverter) noteDifferences(at, text string) {
	if strings.Contains(text, "request.path") {
		c.note(at, "%q: request.path has no query in policies", text)
	}
	if strings.Contains(text, "auth.identity") {
		c.note(at, "%q: the principal must be this identity: see --principal-header", text)
	}
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
		c.noteDifferences(fmt.Sprintf("%s.counters[%d]", at, i), counter.Expression)
		switch header := headerExpression.FindStringSubmatch(cel); {
		case header != nil:
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartHeader, Header: &v1alpha1.HeaderKey{Name: oneOf(header[1:])}})
		case cel == "remoteAddress":
			parts = append(parts, v1alpha1.KeyPart{
				Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{IPv6PrefixLength: new(int32(128))},
			})
		case cel == "principal":
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartPrincipal, Principal: &v1alpha1.PrincipalKey{}})
		default:
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}})
		}
	}
	return parts, nil
}
