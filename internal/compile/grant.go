// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Tenancy determines which hosts and domains policies may match.
type Tenancy string

const (
	// TenancyNamespace restricts policies to the grant of their Namespace.
	TenancyNamespace Tenancy = "Namespace"

	// TenancyCluster trusts every author.
	TenancyCluster Tenancy = "Cluster"
)

// The annotations that grant hosts and domains to the policies of a Namespace. Each is
// a list separated by commas.
const (
	// DomainsAnnotation lists Envoy rate limit domains; "*" grants all.
	DomainsAnnotation = "ratelimit.weir.dev/domains"

	// HostsAnnotation lists hosts; "*.x" grants every subdomain of x but not x itself,
	// "*" grants all.
	HostsAnnotation = "ratelimit.weir.dev/hosts"
)

// all is the entry of an annotation that grants everything.
const all = "*"

// Grant holds the hosts and domains that the policies of one Namespace may match. The
// zero Grant permits none. A policy without matches needs no grant, since it applies only
// to checks that name it; nor does one with targetRefs, since it applies only to requests
// through Gateways and routes of its Namespace.
type Grant struct {
	everything     bool
	domains, hosts []string
}

// Everything returns the grant of TenancyCluster: every host and domain.
func Everything() Grant { return Grant{everything: true} }

// GrantOf reads the grant from the annotations of a Namespace. An entry that is not a
// valid name grants nothing, since no match can contain it.
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

// Equal reports whether both grants were read from equal annotations.
func (g Grant) Equal(other Grant) bool {
	return g.everything == other.everything && slices.Equal(g.domains, other.domains) && slices.Equal(g.hosts, other.hosts)
}

// Permits reports whether all matches of the plan are within the grant, which may have
// changed since the plan was published.
func (g Grant) Permits(p *plan.Plan) bool {
	return !slices.ContainsFunc(p.Matches, func(m plan.Match) bool { return len(g.check(nil, &m)) > 0 })
}

// check returns an error for every host and domain of the match outside the grant.
func (g Grant) check(at *field.Path, m *plan.Match) (errs field.ErrorList) {
	if g.everything || len(m.Targets) > 0 { // the targets are in the Namespace
		return nil
	}
	if m.Domain == "" && len(m.Hosts) == 0 {
		return field.ErrorList{field.Forbidden(at, "must set hosts or domain, within the grant of the Namespace")}
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

// host reports whether every host that the pattern matches is granted.
func (g Grant) host(pattern string) bool {
	return slices.ContainsFunc(g.hosts, func(entry string) bool {
		if entry == all || entry == pattern {
			return true
		}
		// A name or a wildcard that ends in ".x" is a subdomain of x.
		suffix, wildcard := strings.CutPrefix(entry, "*")
		return wildcard && strings.HasPrefix(suffix, ".") && strings.HasSuffix(pattern, suffix)
	})
}
