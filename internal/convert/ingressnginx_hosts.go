// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// hostName is a name of a server. Of several names that a host has, nginx takes the one of the first kind, and among
// subdomains the longest.
type hostName struct {
	kind hostKind
	name string // without "*."
}

type hostKind int

const (
	exactHost  hostKind = iota
	subdomains          // all hosts below the name, at any depth: an alias "*.shop.example"
	oneLabel            // hosts with one more label than the name: a host "*.shop.example" of an Ingress
	anyHost             // the default server
)

// nameServers gives the servers the host of their rules and its aliases: the ones of the oldest Ingress that has some for
// this host. A name is only of the first server that has it, and an alias that is a host of rules is ignored.
func (c *nginxConverter) nameServers(active []*nginxIngress) {
	isHost, isTaken := map[string]bool{}, map[hostName]bool{}
	for _, s := range c.servers {
		isHost[s.host] = true
	}
	for _, s := range c.servers {
		names := []hostName{hostOfRules(s.host)}
		for _, alias := range c.aliasesOf(s, active) {
			if !isHost[alias] {
				names = append(names, hostsOfAlias(alias)...)
			}
		}
		for _, n := range names {
			if !isTaken[n] {
				s.names = append(s.names, n)
			}
			isTaken[n] = true
		}
	}
}

func hostOfRules(host string) hostName {
	suffix, isWildcard := strings.CutPrefix(host, "*.")
	switch {
	case host == "":
		return hostName{kind: anyHost}
	case isWildcard:
		return hostName{oneLabel, suffix}
	}
	return hostName{exactHost, host}
}

func hostsOfAlias(alias string) []hostName {
	if suffix, isWildcard := strings.CutPrefix(alias, "*."); isWildcard {
		return []hostName{{subdomains, suffix}}
	}
	if name, isBoth := strings.CutPrefix(alias, "."); isBoth {
		return []hostName{{exactHost, name}, {subdomains, name}}
	}
	return []hostName{{exactHost, alias}}
}

// aliasesOf returns the aliases of the server in the order of the controller. It notes the ones that policies cannot have.
func (c *nginxConverter) aliasesOf(s *nginxServer, active []*nginxIngress) (aliases []string) {
	var of *nginxIngress
	for _, i := range active {
		found := listOf(i.annotation("server-alias"))
		switch {
		case len(found) == 0 || !i.hasHost(s.host):
			continue
		case of == nil:
			of, aliases = i, found
		case !isOrderKnown(of, i) && !slices.Equal(found, aliases) && c.matters(s):
			c.lose(i.at+": server-alias", "%s has other aliases by %s: the oldest decides, and the files have no creationTimestamp; "+
				"convert the output of kubectl get ingresses -A -o yaml", s.label(), of.at)
			return nil
		}
	}
	return slices.DeleteFunc(aliases, func(alias string) bool {
		isPattern := strings.HasPrefix(alias, "~") || strings.Contains(strings.TrimPrefix(alias, "*."), "*")
		if isPattern && c.matters(s) {
			c.lose(of.at+": server-alias", "hosts cannot be %s", alias)
		}
		return isPattern
	})
}

// listOf returns the lower-case elements of an annotation, sorted, each once.
func listOf(annotation string) (list []string) {
	for element := range strings.SplitSeq(annotation, ",") {
		if element = strings.ToLower(strings.TrimSpace(element)); element != "" {
			list = append(list, element)
		}
	}
	return sortedSet(list)
}

// matters reports whether a host decides about a limit by being a name of the server.
func (c *nginxConverter) matters(s *nginxServer) bool {
	return s.isLimited() || slices.ContainsFunc(c.servers, func(other *nginxServer) bool {
		return other.isLimited() && hostOfRules(other.host).kind != exactHost
	})
}

func (i *nginxIngress) hasHost(host string) bool {
	return slices.ContainsFunc(i.Spec.Rules, func(rule networkingv1.IngressRule) bool { return strings.ToLower(rule.Host) == host })
}

// contains reports whether all hosts of the other name are hosts of this one.
func (n hostName) contains(other hostName) bool {
	isBelow := strings.HasSuffix(other.name, "."+n.name)
	switch n.kind {
	case subdomains:
		return isBelow || other.name == n.name && other.kind != exactHost
	case oneLabel:
		return isBelow && other.kind == exactHost && strings.Count(other.name, ".") == strings.Count(n.name, ".")+1 || other == n
	case anyHost:
		return true
	case exactHost:
	}
	return other == n
}

// isPreferred reports whether nginx takes this name for some hosts of the other one, but not for all.
func (n hostName) isPreferred(over hostName) bool {
	return n != over && n.kind <= over.kind && over.contains(n)
}

// hostMatches returns the hosts of the server in matches, without those that nginx takes for other servers.
func (c *nginxConverter) hostMatches(s *nginxServer, i *nginxIngress) (matches []v1alpha1.Match) {
	var exact v1alpha1.Match
	for _, n := range s.names {
		preferred, isReached := c.preferredNames(n, s, i)
		switch {
		case !isReached:
		case n.kind == exactHost:
			exact.Hosts = append(exact.Hosts, n.name)
		case n.kind == anyHost:
			matches = append(matches, v1alpha1.Match{When: allOf(n.conditions(preferred))})
		default:
			matches = append(matches, v1alpha1.Match{Hosts: []string{"*." + n.name}, When: allOf(n.conditions(preferred))})
		}
	}
	if len(exact.Hosts) > 0 {
		matches = append([]v1alpha1.Match{exact}, matches...)
	}
	return matches
}

// preferredNames returns the names that nginx prefers to the one of the server, unless the Ingress has all locations there. An alias
// may take all hosts of a name, which is then not reached.
func (c *nginxConverter) preferredNames(n hostName, s *nginxServer, i *nginxIngress) (names []hostName, isReached bool) {
	for _, other := range c.servers {
		for _, o := range other.names {
			if other != s && o.kind == subdomains && n.kind == oneLabel && o.contains(n) {
				return nil, false
			}
			if o.isPreferred(n) && !other.isOnlyOf(i) {
				names = append(names, o)
			}
		}
	}
	return names, true
}

// conditions returns what hosts of a match cannot contain: the number of labels, and that no other name is preferred.
func (n hostName) conditions(preferred []hostName) (conditions []string) {
	if n.kind == oneLabel {
		conditions = append(conditions, n.hasOneLabel())
	}
	var hosts []string
	for _, p := range preferred {
		switch isCovered := slices.ContainsFunc(preferred, func(o hostName) bool { return o != p && o.contains(p) }); {
		case isCovered:
		case p.kind == exactHost:
			hosts = append(hosts, p.name)
		case p.kind == subdomains:
			conditions = append(conditions, "!request.host.endsWith("+strconv.Quote("."+p.name)+")")
		default:
			conditions = append(conditions, "!(request.host.endsWith("+strconv.Quote("."+p.name)+") && "+p.hasOneLabel()+")")
		}
	}
	return append(conditions, noneOf("request.host", hosts)...)
}

// hasOneLabel returns the condition that a host below the name has one label more.
func (n hostName) hasOneLabel() string {
	labels := strings.Count(n.name, ".") + 2
	return fmt.Sprintf(`request.host.split(".", %d).size() == %d`, labels+1, labels)
}

// noneOf returns the condition that the value is none of the texts, if there are any.
func noneOf(value string, texts []string) []string {
	slices.Sort(texts)
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	switch len(texts) {
	case 0:
		return nil
	case 1:
		return []string{value + " != " + quoted[0]}
	}
	return []string{"!(" + value + " in [" + strings.Join(quoted, ", ") + "])"}
}
