// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import "strings"

// requestRules are the rules of matches, keys and denials.
var requestRules = map[string]rule{
	"a target of another kind": {
		good:    targetRefs(`{group: gateway.networking.k8s.io, kind: Gateway, name: a}, {group: gateway.networking.k8s.io, kind: GRPCRoute, name: a}`),
		bad:     targetRefs(`{group: gateway.networking.k8s.io, kind: Service, name: a}`),
		field:   "spec.targetRefs",
		message: "targetRefs must have the group gateway.networking.k8s.io and the kind Gateway, HTTPRoute or GRPCRoute",
	},
	"a target of another group": {
		good:    targetRefs(`{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a}`),
		bad:     targetRefs(`{group: "", kind: HTTPRoute, name: a}`),
		field:   "spec.targetRefs",
		message: "targetRefs must have the group gateway.networking.k8s.io and the kind Gateway, HTTPRoute or GRPCRoute",
	},
	"one target twice": {
		good:    targetRefs(`{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a}, {group: gateway.networking.k8s.io, kind: HTTPRoute, name: a, sectionName: b}`),
		bad:     targetRefs(`{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a, sectionName: b}, {group: gateway.networking.k8s.io, kind: HTTPRoute, name: a, sectionName: b}`),
		field:   "spec.targetRefs",
		message: "every entry of targetRefs must be unique",
	},
	"more than 16 targets": {
		good:    targetRefs(repeat(16, `{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a%d}`)),
		bad:     targetRefs(repeat(17, `{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a%d}`)),
		field:   "spec.targetRefs",
		message: "must have at most 16 items",
	},
	"a section that is no name": {
		good:    targetRefs(`{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a, sectionName: b}`),
		bad:     targetRefs(`{group: gateway.networking.k8s.io, kind: HTTPRoute, name: a, sectionName: B_}`),
		field:   "spec.targetRefs[0].sectionName",
		message: "should match",
	},
	"a match that selects nothing": {
		good:    matches(`{methods: [GET]}`),
		bad:     matches(`{}`),
		field:   "spec.matches[0]",
		message: "every match must set at least one of hosts, methods, paths, headers, queryParameters, when, domain and descriptors",
	},
	"a match with an empty list": {
		good:    matches(`{hosts: [a.example]}`),
		bad:     matches(`{hosts: []}`),
		field:   "spec.matches[0].hosts",
		message: "should have at least 1 items",
	},
	"more than 16 matches": {
		good:    matches(repeat(16, `{domain: d%d}`)),
		bad:     matches(repeat(17, `{domain: d%d}`)),
		field:   "spec.matches",
		message: "must have at most 16 items",
	},
	"a host in upper case": {
		good:    matches(`{hosts: [shop.example, "*.shop.example", localhost, 10.0.0.1]}`),
		bad:     matches(`{hosts: [Shop.example]}`),
		field:   "spec.matches[0].hosts[0]",
		message: "hosts must be lower-case DNS names, with the prefix *. for all subdomains",
	},
	"a host with a wildcard inside": {
		good:    matches(`{hosts: ["*.example"]}`),
		bad:     matches(`{hosts: ["shop.*.example"]}`),
		field:   "spec.matches[0].hosts[0]",
		message: "hosts must be lower-case DNS names, with the prefix *. for all subdomains",
	},
	"a host with a port": {
		good:    matches(`{hosts: [a.example, b.example]}`),
		bad:     matches(`{hosts: [a.example, "b.example:443"]}`),
		field:   "spec.matches[0].hosts[1]",
		message: "hosts must be lower-case DNS names, with the prefix *. for all subdomains",
	},
	"one host twice": {
		good:    matches(`{hosts: [a.example, b.example]}`),
		bad:     matches(`{hosts: [a.example, a.example]}`),
		field:   "spec.matches[0].hosts[1]",
		message: "Duplicate value",
	},
	"a method in lower case": {
		good:    matches(`{methods: [GET, M-SEARCH]}`),
		bad:     matches(`{methods: [get]}`),
		field:   "spec.matches[0].methods[0]",
		message: "methods must be HTTP methods in upper case",
	},
	"a path without a slash in front": {
		good:    matches(`{paths: [/, /login, "/api/*", "/*"]}`),
		bad:     matches(`{paths: [login]}`),
		field:   "spec.matches[0].paths[0]",
		message: "paths must start with / and have * at most once, as the last character",
	},
	"a path with a wildcard inside": {
		good:    matches(`{paths: ["/api/v1*"]}`),
		bad:     matches(`{paths: ["/api/*/users"]}`),
		field:   "spec.matches[0].paths[0]",
		message: "paths must start with / and have * at most once, as the last character",
	},
	"an expression above 1024 characters": {
		good:    matches(`{when: ` + strings.Repeat("a", 1024) + `}`),
		bad:     matches(`{when: ` + strings.Repeat("a", 1025) + `}`),
		field:   "spec.matches[0].when",
		message: "may not be more than 1024 bytes",
	},
	"a descriptor without a key": {
		good:    matches(`{descriptors: [{key: generic_key, value: login}, {key: user_id}]}`),
		bad:     matches(`{descriptors: [{value: login}]}`),
		field:   "spec.matches[0].descriptors[0].key",
		message: "Required value",
	},

	"an exact entry without a value": {
		good:    matches(`{descriptors: [{key: a}, {key: a, value: b}, {key: a, type: Exact, value: b}, {key: a, type: Present}, {key: a, type: Prefix, value: b}]}`),
		bad:     matches(`{descriptors: [{key: a, type: Exact}]}`),
		field:   "spec.matches[0].descriptors[0]",
		message: "value must be set when type is Exact or Prefix, and must be absent when it is Present",
	},
	"a prefix without a value": {
		good:    matches(`{descriptors: [{key: a, type: Prefix, value: "b*"}]}`),
		bad:     matches(`{descriptors: [{key: a, type: Prefix}]}`),
		field:   "spec.matches[0].descriptors[0]",
		message: "value must be set when type is Exact or Prefix, and must be absent when it is Present",
	},
	"a present entry with a value": {
		good:    matches(`{descriptors: [{key: a, type: Present}]}`),
		bad:     matches(`{descriptors: [{key: a, type: Present, value: b}]}`),
		field:   "spec.matches[0].descriptors[0]",
		message: "value must be set when type is Exact or Prefix, and must be absent when it is Present",
	},
	"exceptions of an exact entry": {
		good:    matches(`{descriptors: [{key: a, except: [b]}, {key: a, type: Present, except: [b]}, {key: a, type: Prefix, value: b, except: ["bc*"]}]}`),
		bad:     matches(`{descriptors: [{key: a, value: b, except: [c]}]}`),
		field:   "spec.matches[0].descriptors[0]",
		message: "except must be absent when type is Exact",
	},
	"more than 64 exceptions": {
		good:    matches(`{descriptors: [{key: a, except: [` + repeat(64, `v%d`) + `]}]}`),
		bad:     matches(`{descriptors: [{key: a, except: [` + repeat(65, `v%d`) + `]}]}`),
		field:   "spec.matches[0].descriptors[0].except",
		message: "must have at most 64 items",
	},
	"an exception with a wildcard inside": {
		good:    matches(`{descriptors: [{key: a, except: [b, "b*"]}]}`),
		bad:     matches(`{descriptors: [{key: a, except: ["b*c"]}]}`),
		field:   "spec.matches[0].descriptors[0].except[0]",
		message: "should match",
	},
	"an exception for every value": {
		good:    matches(`{descriptors: [{key: a, except: [b, "b*"]}]}`),
		bad:     matches(`{descriptors: [{key: a, except: ["*"]}]}`),
		field:   "spec.matches[0].descriptors[0].except[0]",
		message: "should match",
	},
	"other entries without descriptors": {
		good:    matches(`{descriptors: [{key: a}], otherEntries: Forbidden}, {descriptors: [{key: a}], otherEntries: Allowed}`),
		bad:     matches(`{domain: d, otherEntries: Forbidden}`),
		field:   "spec.matches[0]",
		message: "otherEntries must be set with descriptors only",
	},
	"a header without a value": {
		good:    matches(`{headers: [{name: X-Tier, value: free}, {name: x-b}, {name: x-user, type: Present}, {name: x-a, type: Exact, value: b}]}`),
		bad:     matches(`{headers: [{name: X-Tier, type: Exact}]}`),
		field:   "spec.matches[0].headers[0]",
		message: "value must be set when type is Exact, and must be absent when it is Present",
	},
	"a present header with a value": {
		good:    matches(`{headers: [{name: X-Tier, type: Present}]}`),
		bad:     matches(`{headers: [{name: X-Tier, type: Present, value: free}]}`),
		field:   "spec.matches[0].headers[0]",
		message: "value must be set when type is Exact, and must be absent when it is Present",
	},
	"a pseudo header": {
		good:    matches(`{headers: [{name: method, value: GET}]}`),
		bad:     matches(`{headers: [{name: ":method", value: GET}]}`),
		field:   "spec.matches[0].headers[0].name",
		message: "name must be an HTTP header name",
	},
	"a header twice": {
		good:    matches(`{headers: [{name: x-a, value: "1"}, {name: x-b, value: "1"}]}`),
		bad:     matches(`{headers: [{name: x-a, value: "1"}, {name: x-a, value: "2"}]}`),
		field:   "spec.matches[0].headers[1]",
		message: "Duplicate value",
	},
	"more than 16 headers": {
		good:    matches(`{headers: [` + repeat(16, `{name: h%d, type: Present}`) + `]}`),
		bad:     matches(`{headers: [` + repeat(17, `{name: h%d, type: Present}`) + `]}`),
		field:   "spec.matches[0].headers",
		message: "must have at most 16 items",
	},
	"an unknown type of a header": {
		good:    matches(`{headers: [{name: x-a, type: Exact, value: "1"}]}`),
		bad:     matches(`{headers: [{name: x-a, type: RegularExpression, value: "1"}]}`),
		field:   "spec.matches[0].headers[0].type",
		message: "Unsupported value",
	},
	"a header value above 1024 characters": {
		good:    matches(`{headers: [{name: x-a, value: ` + strings.Repeat("a", 1024) + `}]}`),
		bad:     matches(`{headers: [{name: x-a, value: ` + strings.Repeat("a", 1025) + `}]}`),
		field:   "spec.matches[0].headers[0].value",
		message: "may not be more than 1024 bytes",
	},
	"a query parameter without a value": {
		good:    matches(`{queryParameters: [{name: "tier[]", value: a b}, {name: ü, type: Present}, {name: b}]}`),
		bad:     matches(`{queryParameters: [{name: tier, type: Exact}]}`),
		field:   "spec.matches[0].queryParameters[0]",
		message: "value must be set when type is Exact, and must be absent when it is Present",
	},
	"a query parameter without a name": {
		good:    matches(`{queryParameters: [{name: a, type: Present}]}`),
		bad:     matches(`{queryParameters: [{name: "", type: Present}]}`),
		field:   "spec.matches[0].queryParameters[0].name",
		message: "should be at least 1 chars long",
	},
	"a query parameter twice": {
		good:    matches(`{queryParameters: [{name: a, value: "1"}, {name: A, value: "1"}]}`),
		bad:     matches(`{queryParameters: [{name: a, value: "1"}, {name: a, type: Present}]}`),
		field:   "spec.matches[0].queryParameters[1]",
		message: "Duplicate value",
	},
	"more than 16 query parameters": {
		good:    matches(`{queryParameters: [` + repeat(16, `{name: q%d, type: Present}`) + `]}`),
		bad:     matches(`{queryParameters: [` + repeat(17, `{name: q%d, type: Present}`) + `]}`),
		field:   "spec.matches[0].queryParameters",
		message: "must have at most 16 items",
	},

	"type Cookie without cookie": {
		good:    key(`{type: Cookie, cookie: {name: account}}`),
		bad:     key(`{type: Cookie}`),
		field:   "spec.key[0]",
		message: "cookie must be set when type is Cookie, and only then",
	},
	"a cookie name with a semicolon": {
		good:    key(`{type: Cookie, cookie: {name: __Host-id}}`),
		bad:     key(`{type: Cookie, cookie: {name: "a;b"}}`),
		field:   "spec.key[0].cookie.name",
		message: "name must be a cookie name",
	},
	"type QueryParameter without queryParameter": {
		good:    key(`{type: QueryParameter, queryParameter: {name: account}}`),
		bad:     key(`{type: QueryParameter}`),
		field:   "spec.key[0]",
		message: "queryParameter must be set when type is QueryParameter, and only then",
	},
	"claim beside another type": {
		good:    key(`{type: Claim, claim: {payload: jwt, name: "https://shop.example/tenant"}}`),
		bad:     key(`{type: Principal, principal: {}, claim: {payload: jwt, name: sub}}`),
		field:   "spec.key[0]",
		message: "claim must be set when type is Claim, and only then",
	},
	"a claim without payload": {
		good:    key(`{type: Claim, claim: {payload: jwt, name: sub}}`),
		bad:     key(`{type: Claim, claim: {name: sub}}`),
		field:   "spec.key[0].claim.payload",
		message: "Required value",
	},
	"type Header without header": {
		good:    key(`{type: Header, header: {name: X-Api-Key}}`),
		bad:     key(`{type: Header}`),
		field:   "spec.key[0]",
		message: "header must be set when type is Header, and only then",
	},
	"remoteAddress beside another type": {
		good:    key(`{type: RemoteAddress, remoteAddress: {}}`),
		bad:     key(`{type: Header, header: {name: X-Api-Key}, remoteAddress: {}}`),
		field:   "spec.key[0]",
		message: "remoteAddress must be set when type is RemoteAddress, and only then",
	},
	"type Descriptor without descriptor": {
		good:    key(`{type: Descriptor, descriptor: {key: user_id}}`),
		bad:     key(`{type: Descriptor}`),
		field:   "spec.key[0]",
		message: "descriptor must be set when type is Descriptor, and only then",
	},
	"type Principal without principal": {
		good:    key(`{type: Principal, principal: {}}`),
		bad:     key(`{type: Principal}`),
		field:   "spec.key[0]",
		message: "principal must be set when type is Principal, and only then",
	},
	"expression beside another type": {
		good:    key(`{type: Expression, expression: {cel: 'request.path'}}`),
		bad:     key(`{type: Principal, principal: {}, expression: {cel: 'request.path'}}`),
		field:   "spec.key[0]",
		message: "expression must be set when type is Expression, and only then",
	},
	"more than 8 parts": {
		good:    key(repeat(8, `{type: Header, header: {name: h%d}}`)),
		bad:     key(repeat(9, `{type: Header, header: {name: h%d}}`)),
		field:   "spec.key",
		message: "must have at most 8 items",
	},
	"a header name with a space": {
		good:    key("{type: Header, header: {name: \"!#$%&'*+-.^_`|~09azAZ\"}}"),
		bad:     key(`{type: Header, header: {name: "X Api Key"}}`),
		field:   "spec.key[0].header.name",
		message: "name must be an HTTP header name",
	},
	"an IPv4 prefix above 32": {
		good:    key(`{type: RemoteAddress, remoteAddress: {ipv4PrefixLength: 32, ipv6PrefixLength: 0}}`),
		bad:     key(`{type: RemoteAddress, remoteAddress: {ipv4PrefixLength: 33}}`),
		field:   "spec.key[0].remoteAddress.ipv4PrefixLength",
		message: "should be less than or equal to 32",
	},
	"an IPv6 prefix above 128": {
		good:    key(`{type: RemoteAddress, remoteAddress: {ipv4PrefixLength: 0, ipv6PrefixLength: 128}}`),
		bad:     key(`{type: RemoteAddress, remoteAddress: {ipv6PrefixLength: 129}}`),
		field:   "spec.key[0].remoteAddress.ipv6PrefixLength",
		message: "should be less than or equal to 128",
	},
	"an empty expression": {
		good:    key(`{type: Expression, expression: {cel: a}}`),
		bad:     key(`{type: Expression, expression: {cel: ""}}`),
		field:   "spec.key[0].expression.cel",
		message: "should be at least 1 chars long",
	},

	"an unknown code": {
		good:    `{denial: {code: TooManyAttempts, message: Slow down.}, ` + limits(aLimit)[1:],
		bad:     `{denial: {code: Teapot}, ` + limits(aLimit)[1:],
		field:   "spec.denial.code",
		message: "Unsupported value",
	},
	"a message above 255 characters": {
		good:    `{denial: {message: ` + strings.Repeat("a", 255) + `}, ` + limits(aLimit)[1:],
		bad:     `{denial: {message: ` + strings.Repeat("a", 256) + `}, ` + limits(aLimit)[1:],
		field:   "spec.denial.message",
		message: "may not be more than 255 bytes",
	},
	"an unknown status of a denial": {
		good:    denial(`status: 503`),
		bad:     denial(`status: 404`),
		field:   "spec.denial.status",
		message: "Unsupported value",
	},
	"nine headers of a denial": {
		good:    denial(`headers: [` + repeat(8, `{name: X-%d, value: a}`) + `]`),
		bad:     denial(`headers: [` + repeat(9, `{name: X-%d, value: a}`) + `]`),
		field:   "spec.denial.headers",
		message: "must have at most 8 items",
	},
	"a header of a denial twice": {
		good:    denial(`headers: [{name: X-A, value: a}, {name: X-B, value: a}]`),
		bad:     denial(`headers: [{name: X-A, value: a}, {name: X-A, value: b}]`),
		field:   "spec.denial.headers[1]",
		message: "Duplicate value",
	},
	"a pseudo header of a denial": {
		good:    denial(`headers: [{name: status_1-A, value: a}]`),
		bad:     denial(`headers: [{name: ":status", value: a}]`),
		field:   "spec.denial.headers[0].name",
		message: "should match",
	},
	"a header of a denial with two lines": {
		good:    denial(`headers: [{name: X-A, value: "a ~"}]`),
		bad:     denial(`headers: [{name: X-A, value: "a\r\nb"}]`),
		field:   "spec.denial.headers[0].value",
		message: "should match",
	},
	"a body of another type": {
		good:    denial(`body: {contentType: text/html, template: a}`),
		bad:     denial(`body: {contentType: image/png, template: a}`),
		field:   "spec.denial.body.contentType",
		message: "Unsupported value",
	},
	"a body above 4096 characters": {
		good:    denial(`body: {contentType: text/plain, template: ` + strings.Repeat("a", 4096) + `}`),
		bad:     denial(`body: {contentType: text/plain, template: ` + strings.Repeat("a", 4097) + `}`),
		field:   "spec.denial.body.template",
		message: "may not be more than 4096 bytes",
	},
	"None beside other actions of exceptions": {
		good:    `{exceptions: {actions: [None]}, ` + limits(aLimit)[1:],
		bad:     `{exceptions: {actions: [None, Limit]}, ` + limits(aLimit)[1:],
		field:   "spec.exceptions.actions",
		message: "None must be alone",
	},
}

// denial returns a spec with a member of denial.
func denial(member string) string { return `{denial: {` + member + `}, ` + limits(aLimit)[1:] }
