// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Match selects requests. All fields that are set must match, and at least one must be
// set.
//
// +kubebuilder:validation:XValidation:rule="!has(self.otherEntries) || has(self.descriptors)",message="otherEntries must be set with descriptors only"
// +kubebuilder:validation:XValidation:rule="has(self.hosts) || has(self.methods) || has(self.paths) || has(self.headers) || has(self.queryParameters) || has(self.when) || has(self.domain) || has(self.descriptors)",message="every match must set at least one of hosts, methods, paths, headers, queryParameters, when, domain and descriptors"
type Match struct {
	// hosts are the hosts of the request, without port: a lower-case name such as
	// "shop.example", or "*." and a name, which matches every subdomain but not the
	// name itself. One of them must match. At most 32 entries of at most 253
	// characters. Without entries any host matches.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="hosts must be lower-case DNS names, with the prefix *. for all subdomains"
	Hosts []string `json:"hosts,omitempty"`

	// methods are the HTTP methods of the request, in upper case. One of them must
	// match. At most 16 entries of at most 32 characters. Without entries any method
	// matches.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Z][-_A-Z0-9]*$')",message="methods must be HTTP methods in upper case"
	Methods []string `json:"methods,omitempty"`

	// paths are the paths of the request after normalization (no query, no dot
	// segments, no double slashes): an exact path such as "/login", or a prefix
	// followed by "*". One of them must match. At most 32 entries of at most 255
	// characters. Without entries any path matches.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^/[^*]*[*]?$')",message="paths must start with / and have * at most once, as the last character"
	Paths []string `json:"paths,omitempty"`

	// headers are headers that the request must have, all of them. A client that can
	// leave out a header can avoid the match. At most 16 entries. Without entries any
	// headers match.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderMatch `json:"headers,omitempty"`

	// queryParameters are parameters that the query of the request must have, all of
	// them. At most 16 entries. Without entries any query matches.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	QueryParameters []QueryParameterMatch `json:"queryParameters,omitempty"`

	// when is a CEL expression over the request that must yield true. An absent
	// header is the empty string. An expression that fails at run time counts as true,
	// so that no request can evade a limit by making it fail. At most 1024 characters.
	// Without it there is no further condition.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	When string `json:"when,omitempty"`

	// domain is the Envoy rate limit domain of the request. At most 255 characters.
	// Without it requests match with any domain or none.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Domain string `json:"domain,omitempty"`

	// descriptors are Envoy descriptor entries that must all be present in one
	// descriptor of the request. At most 16 entries. Without entries any request
	// matches, even one without descriptors.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Descriptors []DescriptorMatch `json:"descriptors,omitempty"`

	// otherEntries is whether the descriptor may have entries that descriptors does not
	// name. With Forbidden it must have as many entries as descriptors, also counting
	// entries that are equal, and each must be one of them: a client that can add an
	// entry can avoid the match. Only with descriptors. Defaults to Allowed.
	//
	// +optional
	OtherEntries OtherEntries `json:"otherEntries,omitempty"`
}

// HeaderMatch selects requests by one header.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || (self.type == 'Exact') == has(self.value)",message="value must be set when type is Exact, and must be absent when it is Present"
type HeaderMatch struct {
	// name is the name of the header, case-insensitive. 1 to 255 characters. The
	// method, the host and the path have fields of their own.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[-!#$%&\x27*+.^_\x60|~0-9A-Za-z]+$')`,message="name must be an HTTP header name"
	Name string `json:"name"`

	// type is how the header is compared. Exact needs value: the header has it, or it is
	// among values that are repeated or separated by commas. Present accepts any value,
	// also an empty one. Defaults to Exact with a value, and to Present without one.
	//
	// +optional
	Type ValueMatchType `json:"type,omitempty"`

	// value is the value that the header must have, compared as it is. 1 to 1024
	// characters. Not with type Present.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// QueryParameterMatch selects requests by one parameter of the query.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || (self.type == 'Exact') == has(self.value)",message="value must be set when type is Exact, and must be absent when it is Present"
type QueryParameterMatch struct {
	// name is the name of the parameter without escapes. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`

	// type is how the parameter is compared. Exact needs value: one of the values of the
	// parameter is equal to it. Present accepts any value, also an empty one. Defaults to
	// Exact with a value, and to Present without one.
	//
	// +optional
	Type ValueMatchType `json:"type,omitempty"`

	// value is the value that the parameter must have, without escapes. 1 to 1024
	// characters. Not with type Present.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// DescriptorMatch selects one entry of an Envoy rate limit descriptor.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || (self.type != 'Present') == has(self.value)",message="value must be set when type is Exact or Prefix, and must be absent when it is Present"
// +kubebuilder:validation:XValidation:rule="!has(self.except) || (has(self.type) ? self.type != 'Exact' : !has(self.value))",message="except must be absent when type is Exact"
type DescriptorMatch struct {
	// key is the key of the entry. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Key string `json:"key"`

	// type is how the value is compared. Exact and Prefix need value: the entry has it, or
	// begins with it. Present accepts any value, also an empty one. Defaults to Exact with
	// a value, and to Present without one.
	//
	// +optional
	Type EntryMatchType `json:"type,omitempty"`

	// value is the value of the entry, or its beginning with type Prefix. 1 to 255
	// characters. Not with type Present.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Value string `json:"value,omitempty"`

	// except are values that do not match: an exact value, or a prefix followed by "*". 1
	// to 64 entries of at most 255 characters. Only with types Present and Prefix. Without
	// entries no value is excluded.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:Pattern=`^[^*]+[*]?$`
	Except []string `json:"except,omitempty"`
}

// KeyPart is one part of the key. Exactly the field that type names must be set.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Header') == has(self.header)",message="header must be set when type is Header, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'RemoteAddress') == has(self.remoteAddress)",message="remoteAddress must be set when type is RemoteAddress, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Descriptor') == has(self.descriptor)",message="descriptor must be set when type is Descriptor, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Cookie') == has(self.cookie)",message="cookie must be set when type is Cookie, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'QueryParameter') == has(self.queryParameter)",message="queryParameter must be set when type is QueryParameter, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Claim') == has(self.claim)",message="claim must be set when type is Claim, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Principal') == has(self.principal)",message="principal must be set when type is Principal, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Expression') == has(self.expression)",message="expression must be set when type is Expression, and only then"
type KeyPart struct {
	// type is the source of the value of this part: Header, Cookie, QueryParameter, Claim,
	// RemoteAddress, Descriptor, Principal or Expression. The field of that name must be
	// set.
	//
	// +required
	Type KeyPartType `json:"type"`

	// header takes the value of a request header. Only with type Header.
	//
	// +optional
	Header *HeaderKey `json:"header,omitempty"`

	// cookie takes the value of a cookie. Only with type Cookie.
	//
	// +optional
	Cookie *CookieKey `json:"cookie,omitempty"`

	// queryParameter takes the value of a parameter of the query. Only with type
	// QueryParameter.
	//
	// +optional
	QueryParameter *QueryParameterKey `json:"queryParameter,omitempty"`

	// claim takes the value of a claim of a JSON Web Token that the proxy has verified.
	// Only with type Claim.
	//
	// +optional
	Claim *ClaimKey `json:"claim,omitempty"`

	// remoteAddress takes the network of the client address. Only with type
	// RemoteAddress.
	//
	// +optional
	RemoteAddress *RemoteAddressKey `json:"remoteAddress,omitempty"`

	// descriptor takes the value of an entry of the matched Envoy descriptor. Only
	// with type Descriptor.
	//
	// +optional
	Descriptor *DescriptorKey `json:"descriptor,omitempty"`

	// principal takes the authenticated user, the SPIFFE identity or the name in the
	// client certificate. Only with type Principal.
	//
	// +optional
	Principal *PrincipalKey `json:"principal,omitempty"`

	// expression takes the result of a CEL expression. Only with type Expression.
	//
	// +optional
	Expression *ExpressionKey `json:"expression,omitempty"`
}

// HeaderKey takes the value of a request header.
type HeaderKey struct {
	// name is the name of the header, case-insensitive. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[-!#$%&\x27*+.^_\x60|~0-9A-Za-z]+$')`,message="name must be an HTTP header name"
	Name string `json:"name"`
}

// CookieKey takes the value of a cookie.
type CookieKey struct {
	// name is the name of the cookie, case-sensitive. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[-!#$%&\x27*+.^_\x60|~0-9A-Za-z]+$')`,message="name must be a cookie name"
	Name string `json:"name"`
}

// QueryParameterKey takes the value of a parameter of the query.
type QueryParameterKey struct {
	// name is the name of the parameter without escapes. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
}

// ClaimKey takes the value of a claim of a JSON Web Token (RFC 7519) that the proxy has
// verified. A text, an integer and a boolean are values.
type ClaimKey struct {
	// payload is the name under which the proxy passes the claims of the token: the
	// payload_in_metadata of Envoy's JWT provider. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Payload string `json:"payload"`

	// name is the name of the claim, such as sub or https://shop.example/tenant. If the
	// token lacks a claim with the name, dots lead into nested objects: address.country. 1
	// to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
}

// RemoteAddressKey takes the network of the client address, so that a client cannot
// multiply its budget by using several addresses of its network.
type RemoteAddressKey struct {
	// ipv4PrefixLength is the number of leading bits of an IPv4 address that are used,
	// 0 to 32. With 0 all IPv4 clients share one value. Defaults to 32, the whole
	// address.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	IPv4PrefixLength *int32 `json:"ipv4PrefixLength,omitempty"`

	// ipv6PrefixLength is the number of leading bits of an IPv6 address that are used,
	// 0 to 128. With 0 all IPv6 clients share one value. Defaults to 64, the usual
	// network of one client.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	IPv6PrefixLength *int32 `json:"ipv6PrefixLength,omitempty"`
}

// DescriptorKey takes the value of a descriptor entry.
type DescriptorKey struct {
	// key is the key of the entry. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Key string `json:"key"`
}

// PrincipalKey takes the authenticated identity. It has no settings.
type PrincipalKey struct{}

// ExpressionKey takes the result of a CEL expression.
type ExpressionKey struct {
	// cel is the expression over the request; it must yield a string. If it fails at
	// run time the part is missing: see onMissingKey. 1 to 1024 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	CEL string `json:"cel"`
}
