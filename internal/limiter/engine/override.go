// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// override is one override of a plan, prepared for deciding.
type override struct {
	name     string
	keys     map[string]struct{}
	groups   []string
	places   []int // of the groups
	networks *networks
	when     *lazyExpression[bool] // nil without a when
	action   plan.Action
	variant  *variant // nil unless action is plan.ActionLimit
}

func newOverride(p *plan.Plan, i int) override {
	o := &p.Overrides[i]
	prepared := override{name: o.Name, groups: o.Groups, action: o.Action}
	if len(o.Keys) > 0 {
		prepared.keys = make(map[string]struct{}, len(o.Keys))
		for _, key := range slices.Concat(o.Keys, p.KeysOf(o)) { // checks may give a key as the override has it
			prepared.keys[key] = struct{}{}
		}
	}
	if len(o.CIDRs) > 0 {
		prepared.networks = newNetworks(o.CIDRs)
	}
	if o.When != "" {
		prepared.when = newLazyExpression[bool](fmt.Sprintf("spec.overrides[%d].when", i), o.When)
	}
	return prepared
}

// selects reports whether every selector holds for the key, which is in these groups, and the attributes. It returns an
// error if the expression fails and the other selectors hold.
func (o *override) selects(key []string, groups *groupSet, a *plan.Attributes, descriptors []plan.Descriptor) (bool, error) {
	if len(o.groups) > 0 { // the only selector
		return o.groupOf(groups) != "", nil
	}
	if o.keys != nil {
		if len(key) != 1 {
			return false, nil
		}
		if _, found := o.keys[key[0]]; !found {
			return false, nil
		}
	}
	if o.networks != nil && !o.networks.contain(a.RemoteAddress) {
		return false, nil
	}
	if o.when == nil {
		return true, nil
	}
	return o.when.evaluate(a, descriptors)
}

// placeGroups gives each group that the overrides select one place, the same in all of them.
func placeGroups(overrides []override) groupPlaces {
	places := groupPlaces{}
	for i := range overrides {
		o := &overrides[i]
		for _, group := range o.groups {
			place, found := places[group]
			if !found {
				place = len(places)
				places[group] = place
			}
			o.places = append(o.places, place)
		}
	}
	return places
}

// groupOf returns the first group of the override that the key is in, "" for none.
func (o *override) groupOf(groups *groupSet) string {
	for i, place := range o.places {
		if groups.has(place) {
			return o.groups[i]
		}
	}
	return ""
}

// networks looks up addresses in a set of CIDRs, once per distinct prefix length.
type networks struct {
	all        map[netip.Prefix]struct{}
	ipv4, ipv6 []int // distinct prefix lengths
}

func newNetworks(cidrs []netip.Prefix) *networks {
	n := &networks{all: make(map[netip.Prefix]struct{}, len(cidrs))}
	for _, cidr := range cidrs {
		n.all[cidr] = struct{}{}
		lengths := &n.ipv6
		if cidr.Addr().Is4() {
			lengths = &n.ipv4
		}
		if !slices.Contains(*lengths, cidr.Bits()) {
			*lengths = append(*lengths, cidr.Bits())
		}
	}
	return n
}

// contain reports whether one of the networks contains the normalized address. The zero
// address lies in none.
func (n *networks) contain(address netip.Addr) bool {
	lengths := n.ipv6
	if address.Is4() {
		lengths = n.ipv4
	}
	for _, bits := range lengths {
		network, err := address.Prefix(bits)
		if err != nil {
			return false // the zero address
		}
		if _, found := n.all[network]; found {
			return true
		}
	}
	return false
}
