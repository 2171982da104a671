// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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
	{regexp.MustCompile(`\brequest\.useragent\b`), `request.headers["user-agent"]`},
	{regexp.MustCompile(`\brequest\.referer\b`), `request.headers["referer"]`},
	{regexp.MustCompile(`\brequest\.id\b`), `request.headers["x-request-id"]`},
	{regexp.MustCompile(`\brequest\.headers(?:\.host\b|\[['"]host['"]\])`), "request.host"},
	{regexp.MustCompile(`\bsource\.remote_address\b`), "remoteAddress"},
	{regexp.MustCompile(`\bauth\.identity\.(?:username|userid|sub)\b`), "principal"},
}

// identityClaim is a claim of the identity: an index, or a path and the parenthesis if its last name is a method.
var identityClaim = regexp.MustCompile(
	`\b(?:request\.auth\.claims|auth\.identity(?:\.claims)?)(?:\[['"]([^'"\\]+)['"]\]|((?:\.[A-Za-z_]\w*)+)(\(?))`)

// claimHeaderPrefix begins the headers that the gateway must set to claims. Kuadrant's gateways, Istio and Envoy Gateway, cannot
// pass claims otherwise.
const claimHeaderPrefix = "x-claim-"

// headerOfClaim returns the header in place of the claim.
func headerOfClaim(claim string) string {
	found := identityClaim.FindStringSubmatch(claim)
	name, method := cmp.Or(found[1], strings.TrimPrefix(found[2], ".")), ""
	if found[3] != "" {
		i := strings.LastIndexByte(name, '.')
		name, method = name[:max(i, 0)], "."+name[i+1:]+"("
	}
	if name == "" {
		return claim // a method of all claims
	}
	return "request.headers[" + strconv.Quote(claimHeaderPrefix+slug(name, 100)) + "]" + method
}

// kuadrantExpression returns the expression with the names that policies use.
func kuadrantExpression[T expression.Result](text string) (string, error) {
	converted := strings.TrimSpace(text)
	for _, a := range kuadrantAttributes {
		converted = a.from.ReplaceAllString(converted, a.to)
	}
	converted = identityClaim.ReplaceAllStringFunc(converted, headerOfClaim)
	if port := comparedPort(converted); port != "" {
		return "", fmt.Errorf("%q compares request.host with %s, and request.host has no port in policies", text, port)
	}
	_, err := expression.Compile[T](converted)
	if err != nil && strings.Contains(text, "auth.") {
		return "", fmt.Errorf("%q cannot be converted: policies can only read principal (with --principal-header) and claims that are text in a header from auth: %w", text, err)
	}
	if err != nil {
		return "", fmt.Errorf("%q cannot be converted: %w", text, err)
	}
	return converted, nil
}

// textWithPort is a text that ends with a colon and digits, after the call that it is an argument of.
var textWithPort = regexp.MustCompile(`(\w*\()?('[^'/\[]*:\d*'|"[^"/\[]*:\d*")`)

// comparedPort returns the first text with a port in an expression that reads request.host, "" for none. split and replace
// find no colon in a host without a port, and return the same host as in Kuadrant.
func comparedPort(text string) string {
	if !strings.Contains(text, "request.host") {
		return ""
	}
	for _, found := range textWithPort.FindAllStringSubmatch(text, -1) {
		if !slices.Contains([]string{"split(", "replace("}, found[1]) {
			return found[2]
		}
	}
	return ""
}

// conditions returns an expression for each predicate.
func (c *kuadrantConverter) conditions(at string, when []kuadrantWhen) (conditions []string, err error) {
	for _, w := range when {
		if w.Unknown != "" {
			return nil, fmt.Errorf("the operator %q is not one of eq, neq, startswith, endswith and matches", w.Unknown)
		}
		condition, err := kuadrantExpression[bool](w.Predicate)
		if err != nil {
			return nil, err
		}
		c.noteDifferences(at+".when", w.Predicate, condition)
		if strings.Contains(condition, "request.headers") && !w.defaultsToEmpty {
			c.note(at+".when", "%q: a header that is absent is \"\"; in Kuadrant the predicate fails", w.Predicate)
		}
		conditions = append(conditions, "("+condition+")")
	}
	return conditions, nil
}

// noteDifferences notes what the converted expression reads that has another value in policies.
func (c *kuadrantConverter) noteDifferences(at, text, converted string) {
	for _, d := range []struct{ expression, name, difference string }{
		{text, "request.path", "request.path has no query in policies"},
		{converted, "request.host", "request.host has no port in policies; Kuadrant compares with the port, if a client sends one"},
		{converted, "principal", "the principal must be this identity: see --principal-header"},
	} {
		if strings.Contains(d.expression, d.name) {
			c.note(at, "%q: %s", text, d.difference)
		}
	}
	for _, header := range claimHeader.FindAllString(converted, -1) {
		c.note(at, "%q: the gateway must set the header %s to this claim, and remove it from requests of clients: "+
			"claimToHeaders of Envoy Gateway, outputClaimToHeaders of Istio", text, header)
	}
}

var claimHeader = regexp.MustCompile(claimHeaderPrefix + "[a-z0-9-]+")

// headerExpression is the value of one header.
var headerExpression = regexp.MustCompile(`^request\.headers(?:\[(?:'([^'\\]+)'|"([^"\\]+)")\]|\.([A-Za-z_]\w*))$`)

// counters returns the key for the counters of the limit.
func (c *kuadrantConverter) counters(at string, limit *kuadrantLimit) (parts []v1alpha1.KeyPart, err error) {
	for i, counter := range limit.Counters {
		cel, err := kuadrantExpression[string](counter.Expression)
		if err != nil {
			return nil, err
		}
		c.noteDifferences(fmt.Sprintf("%s.counters[%d]", at, i), counter.Expression, cel)
		switch header := headerExpression.FindStringSubmatch(cel); {
		case header != nil:
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartHeader, Header: &v1alpha1.HeaderKey{Name: oneOf(header[1:])}})
		case cel == "remoteAddress":
			parts = append(parts, wholeAddress())
		case cel == "principal":
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartPrincipal, Principal: &v1alpha1.PrincipalKey{}})
		default:
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}})
		}
	}
	return parts, nil
}
