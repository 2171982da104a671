// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Tenancy says whose traffic the author of a policy may match.
type Tenancy string

const (
	// TenancyNamespace lets policies match what their Namespace is granted.
	TenancyNamespace Tenancy = "Namespace"

	// TenancyCluster trusts every author.
	TenancyCluster Tenancy = "Cluster"
)

// Annotations of a Namespace that grant its policies something to match. Each
// is a list separated by commas.
const (
	// DomainsAnnotation lists Envoy rate limit domains; "*" is all of them.
	DomainsAnnotation = "ratelimit.weir.dev/domains"

	// HostsAnnotation lists hosts; "*.x" is every name below x, but not x
	// itself, and "*" is all of them.
	HostsAnnotation = "ratelimit.weir.dev/hosts"
)

// all is the entry of an annotation that grants everything.
const all = "*"

// Grant says which traffic the policies of one Namespace may match. The zero
// Grant permits none. Policies that are only ever named need no grant: whoever
// names them has chosen them.
type Grant struct {
	everything     bool
	domains, hosts []string
}

// Everything is the grant of those who trust every author of policies.
func Everything() Grant { return Grant{everything: true} }

// GrantOf reads the grant from the annotations of a Namespace. An entry that
// is no name grants nothing, as no match can name it.
func GrantOf(annotations map[string]string) Grant {
	return Grant{
		domains: entries(annotations[DomainsAnnotation]),
		hosts:   entries(strings.ToLower(annotations[HostsAnnotation])),
	}
}

func entries(list string) []string {
	var found []string
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			found = append(found, entry)
		}
	}
	return found
}

// Permits reports whether everything the plan matches lies within the grant. A
// plan may have been published under another grant than the one of today.
func (g Grant) Permits(p *plan.Plan) bool {
	at := field.NewPath("matches")
	for i := range p.Matches {
		if len(g.check(at.Index(i), &p.Matches[i])) > 0 {
			return false
		}
	}
	return true
}

// check says what of a match lies outside the grant.
func (g Grant) check(at *field.Path, m *plan.Match) (errs field.ErrorList) {
	if g.everything {
		return nil
	}
	if m.Domain == "" && len(m.Hosts) == 0 {
		return field.ErrorList{field.Forbidden(at, "must name hosts or domain, within what the Namespace is granted")}
	}
	if m.Domain != "" && !g.domain(m.Domain) {
		errs = append(errs, notGranted(at.Child("domain"), m.Domain, DomainsAnnotation))
	}
	for i, host := range m.Hosts {
		if !g.host(host) {
			errs = append(errs, notGranted(at.Child("hosts").Index(i), host, HostsAnnotation))
		}
	}
	return errs
}

func notGranted(at *field.Path, name, annotation string) *field.Error {
	return field.Forbidden(at, name+" is not granted to the Namespace by its annotation "+annotation)
}

func (g Grant) domain(name string) bool {
	return slices.Contains(g.domains, all) || slices.Contains(g.domains, name)
}

// host reports whether every host that the pattern holds for is granted.
func (g Grant) host(pattern string) bool {
	return slices.ContainsFunc(g.hosts, func(entry string) bool {
		if entry == all || entry == pattern {
			return true
		}
		// Whatever ends in ".x" lies below x, be it a name or a wildcard.
		suffix, wildcard := strings.CutPrefix(entry, "*")
		return wildcard && strings.HasPrefix(suffix, ".") && strings.HasSuffix(pattern, suffix)
	})
}
