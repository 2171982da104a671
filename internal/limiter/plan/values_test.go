// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/test/testplan"
)

func matchHeaders(entries ...string) plan.Match {
	return plan.Match{Headers: testplan.Descriptor(entries...)}
}

func matchQuery(entries ...string) plan.Match {
	return plan.Match{QueryParameters: testplan.Descriptor(entries...)}
}

func headers(value string) plan.Attributes {
	return plan.Attributes{Headers: map[string]string{"x-tier": value}}
}

func query(text string) plan.Attributes { return plan.Attributes{Query: text} }

var (
	manyValues = strings.Repeat("x,", plan.MaxReadValues)
	longQuery  = "x=" + strings.Repeat("x", plan.MaxReadBytes)
)

// A match by a value holds if it does for any server. It is uncertain where the values are not read.
func TestMatchValues(t *testing.T) {
	for name, tc := range map[string]struct {
		match     plan.Match
		a         plan.Attributes
		want      bool
		uncertain bool
	}{
		"a header":                        {match: matchHeaders("x-tier=free"), a: headers("free"), want: true},
		"another value of a header":       {match: matchHeaders("x-tier=free"), a: headers("freedom")},
		"a value in another case":         {match: matchHeaders("x-tier=free"), a: headers("Free")},
		"an absent header":                {match: matchHeaders("x-tier=free"), a: plan.Attributes{}},
		"a header that is present":        {match: matchHeaders("x-tier"), a: headers("gold"), want: true},
		"a header that is empty":          {match: matchHeaders("x-tier"), a: headers(""), want: true},
		"a header that is not present":    {match: matchHeaders("x-tier"), a: query("x-tier=1")},
		"a repeated header":               {match: matchHeaders("x-tier=free"), a: headers("gold,free"), want: true},
		"a list in a header":              {match: matchHeaders("x-tier=free"), a: headers("gold ,\tfree"), want: true},
		"a list as a whole":               {match: matchHeaders("x-tier=a, b"), a: headers("a, b"), want: true},
		"a list with other spaces":        {match: matchHeaders("x-tier=a, b"), a: headers("a,b"), want: true},
		"a list, repeated":                {match: matchHeaders("x-tier=a, b"), a: headers("c,a, b"), want: true},
		"a part of a list":                {match: matchHeaders("x-tier=a, b"), a: headers("a, c")},
		"two headers":                     {match: matchHeaders("x-tier=a", "x-b"), a: headers("a")},
		"a header of too many values":     {match: matchHeaders("x-tier=free"), a: headers(manyValues), want: true, uncertain: true},
		"a present header of many values": {match: matchHeaders("x-tier"), a: headers(manyValues), want: true},

		"a parameter":                     {match: matchQuery("q=a b"), a: query("p=1&q=a%20b"), want: true},
		"a parameter with a plus sign":    {match: matchQuery("q=a b"), a: query("q=a+b"), want: true},
		"a plus sign that is none":        {match: matchQuery("q=a+b"), a: query("q=a+b"), want: true},
		"an escaped plus sign":            {match: matchQuery("q=a+b"), a: query("q=a%2bb"), want: true},
		"an escaped name":                 {match: matchQuery("q=1"), a: query("%71=1"), want: true},
		"a name in another case":          {match: matchQuery("q=1"), a: query("Q=1"), want: true},
		"a value in another letter case":  {match: matchQuery("q=a"), a: query("q=A")},
		"bad escapes":                     {match: matchQuery("q=%zz%"), a: query("q=%zz%"), want: true},
		"escapes that are not decoded":    {match: matchQuery("q=%61"), a: query("q=%61"), want: true},
		"escapes twice":                   {match: matchQuery("q=a"), a: query("q=%2561"), want: true},
		"a name with escapes twice":       {match: matchQuery("q=a"), a: query("%2571=a"), want: true},
		"spaces around a value":           {match: matchQuery("q=a"), a: query("q=%20a+"), want: true},
		"spaces around a name":            {match: matchQuery("q=a"), a: query("+q+=a"), want: true},
		"a repeated parameter":            {match: matchQuery("q=2"), a: query("q=1&q=2&q=3"), want: true},
		"a semicolon that separates":      {match: matchQuery("q=1"), a: query("p=1;q=1"), want: true},
		"a semicolon in a value":          {match: matchQuery("p=1;q=1"), a: query("p=1;q=1"), want: true},
		"a value before a semicolon":      {match: matchQuery("p=1"), a: query("p=1;q=1"), want: true},
		"a value before a fragment":       {match: matchQuery("p=1"), a: query("p=1#x"), want: true},
		"an array":                        {match: matchQuery("q=1"), a: query("q[]=1"), want: true},
		"an element of an array":          {match: matchQuery("q=1"), a: query("q%5b0%5d=1"), want: true},
		"a parameter that is present":     {match: matchQuery("q"), a: query("q=1"), want: true},
		"a parameter without equals sign": {match: matchQuery("q"), a: query("q"), want: true},
		"an empty value":                  {match: matchQuery("q"), a: query("p&q="), want: true},
		"an absent parameter":             {match: matchQuery("q"), a: query("p=q")},
		"no query":                        {match: matchQuery("q"), a: plan.Attributes{}},
		"two parameters":                  {match: matchQuery("q=1", "p"), a: query("q=1")},
		"a query in the path":             {match: matchQuery("q=1"), a: plan.Attributes{Path: "/x?q=1"}, want: true},
		"a query in the path as well":     {match: matchQuery("q=1"), a: plan.Attributes{Path: "/x?p=1", Query: "q=1"}, want: true},
		"a query behind a fragment":       {match: matchQuery("q=1"), a: plan.Attributes{Path: "/x#?q=1"}, want: true},
		"a query that is too long":        {match: matchQuery("q=1"), a: query(longQuery), want: true, uncertain: true},
		"too many parameters":             {match: matchQuery("q"), a: query(strings.Repeat("p&", plan.MaxReadValues)), want: true, uncertain: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := testplan.Valid()
			p.Matches = []plan.Match{tc.match}
			g.Expect(p.Validate()).To(Succeed())
			tc.a.Normalize()
			found := index.NewSnapshot(1, []*plan.Plan{p}).Match(&tc.a)
			if !tc.want {
				g.Expect(found).To(BeEmpty())
				return
			}
			g.Expect(found).To(HaveLen(1))
			g.Expect(found[0].Uncertain).To(Equal(tc.uncertain))
		})
	}
}

// A key has the value that all servers read. Where they differ it is ambiguous.
func TestSingleValues(t *testing.T) {
	type result struct {
		value string
		ok    bool
	}
	single, missing, ambiguous := result{"alice", true}, result{"", true}, false
	cookie := func(text string) *plan.Values {
		return (&plan.Attributes{Headers: map[string]string{"cookie": text}}).CookieValues()
	}
	parameter := func(text string) *plan.Values { return (&plan.Attributes{Query: text}).QueryValues() }
	for _, tc := range []struct {
		values *plan.Values
		want   any // a result, or ambiguous
	}{
		{parameter("account=alice"), single},
		{parameter("x=1&account=%61lice&y"), single},
		{parameter("%61ccount=alice"), single},
		{parameter("account="), missing},
		{parameter("account"), missing},
		{parameter(""), missing},
		{parameter("accounts=alice"), missing},
		{parameter("account=a+b%2Bc"), result{"a b+c", true}},
		{parameter("account=%zz"), result{"%zz", true}},
		{parameter("account=+alice%20"), single},
		{parameter("account=alice%25"), result{"alice%", true}},
		{parameter("account=%2561lice"), ambiguous},
		{parameter("%2561ccount=alice"), ambiguous},
		{parameter("account=alice&%2561ccount=bob"), ambiguous},
		{parameter("x=1;y=2&account=alice"), single},
		{parameter("account=alice&account=alice"), ambiguous},
		{parameter("account=alice&%61ccount=bob"), ambiguous},
		{parameter("account=alice;x"), ambiguous},
		{parameter("x=1;account=alice"), ambiguous},
		{parameter("x=1;account=bob&account=alice"), ambiguous},
		{parameter("account=alice#x"), ambiguous},
		{parameter("Account=alice"), ambiguous},
		{parameter("account[]=alice"), ambiguous},
		{parameter("account=alice&account[x]=bob"), ambiguous},
		{parameter("account=alice&" + longQuery), ambiguous},
		{parameter(strings.Repeat("&", plan.MaxReadValues) + "account=alice"), ambiguous},

		{cookie("account=alice"), single},
		{cookie("a=1;  account=alice ;b=2"), single},
		{cookie(`account="alice"`), single},
		{cookie(`account=%61lice`), single},
		{cookie(`x="a,b"; account=alice`), single},
		{cookie("accounts=alice"), missing},
		{cookie("account="), missing},
		{cookie(""), missing},
		{cookie("account=a+b"), result{"a+b", true}},
		{cookie("account=alice; account=alice"), ambiguous},
		{cookie("account=alice; Account=bob"), ambiguous},
		{cookie("account[]=alice"), ambiguous},
		{cookie("account=%2561lice"), ambiguous},
		{cookie("account=alice,account=bob"), ambiguous},
		{cookie("account=alice,x=1"), ambiguous},
		{cookie("x=1,account=alice"), ambiguous},
		{cookie("x=1 account=alice"), ambiguous},
		{cookie("account = alice"), ambiguous},
		{cookie(`account="al\151ce"`), ambiguous},
		{cookie(`account=al"ice`), ambiguous},
		{cookie("account=alice; " + longQuery), ambiguous},
	} {
		value, ok := tc.values.Get("account")
		if tc.want == ambiguous {
			NewWithT(t).Expect(ok).To(BeFalse(), "%+v", tc)
			continue
		}
		NewWithT(t).Expect(result{value, ok}).To(Equal(tc.want))
	}
}

// Reading the worst values takes at most as long as forty readings of the same query by the standard library: about a
// millisecond.
func TestReadingValuesIsBounded(t *testing.T) {
	worst := plan.Attributes{Headers: map[string]string{"x-tier": strings.Repeat("x,", plan.MaxReadValues-1)}}
	for i := range plan.MaxReadValues - 1 {
		worst.Query += fmt.Sprintf("%%61+[%d]=%s;", i, strings.Repeat("%62+", 12))
	}
	p := testplan.Valid()
	p.Matches = []plan.Match{{Headers: testplan.Descriptor("x-tier=y")}, {QueryParameters: testplan.Descriptor("y=1")}}
	snapshot := index.NewSnapshot(1, []*plan.Plan{p})
	g := NewWithT(t)
	g.Expect(len(worst.Query)).To(And(BeNumerically(">", plan.MaxReadBytes*9/10), BeNumerically("<=", plan.MaxReadBytes)))
	shortest := func(read func()) time.Duration {
		best := time.Hour
		for range 20 {
			start := time.Now()
			read()
			best = min(best, time.Since(start))
		}
		return best
	}
	ours := shortest(func() {
		a := worst
		snapshot.Match(&a)
	})
	library := shortest(func() {
		_, err := url.ParseQuery(strings.ReplaceAll(worst.Query, ";", "&"))
		g.Expect(err).NotTo(HaveOccurred())
	})
	t.Log(ours, library)
	g.Expect(ours).To(BeNumerically("<", 40*library))
}

// Claims within objects have the names of both; a claim whose name has dots comes first.
func TestClaimsOf(t *testing.T) {
	deep := map[string]any{"x": "9"}
	for range plan.MaxClaimDepth {
		deep = map[string]any{"o": deep}
	}
	NewWithT(t).Expect(plan.ClaimsOf(map[string]any{
		"s": "a", "b": false, "n": 7.0, "zero": math.Copysign(0, -1), "fraction": 1.5, "large": float64(1 << 53), "exact": -(1<<53 - 1.0), "null": nil, "list": []any{"a"},
		"a": map[string]any{"b.c": "1", "b": map[string]any{"c": "2", "d": "3"}}, "a.b": map[string]any{"d": "4"}, "a.b.d": "5",
		"deep": deep, strings.Repeat("x", plan.MaxText+1): "a",
	})).To(Equal(map[string]string{
		"s": "a", "b": "false", "n": "7", "zero": "0", "exact": "-9007199254740991", "a.b.c": "1", "a.b.d": "5",
	}))
}
