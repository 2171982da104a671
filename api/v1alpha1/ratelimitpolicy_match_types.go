// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Match selects requests: every field given must hold, and at least one is given.
//
// +kubebuilder:validation:XValidation:rule="has(self.hosts) || has(self.methods) || has(self.paths) || has(self.when) || has(self.domain) || has(self.descriptors)",message="matches must give at least one of hosts, methods, paths, when, domain and descriptors in every entry"
type Match struct {
	// hosts are the hosts of the request, without port: a lower-case name such as
	// "shop.example", or "*." and a name, which holds for every name below it but
	// not for the name itself. One of them must hold. At most 32 entries of at most
	// 253 characters. Without entries any host holds.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="hosts must be lower-case DNS names, with *. in front to mean every name below"
	Hosts []string `json:"hosts,omitempty"`

	// methods are the HTTP methods of the request, in upper case. One of them must
	// hold. At most 16 entries of at most 32 characters. Without entries any method
	// holds.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Z][-_A-Z0-9]*$')",message="methods must be HTTP methods in upper case"
	Methods []string `json:"methods,omitempty"`

	// paths are the paths of the request after normalisation (no query, no dot
	// segments, no double slashes): an exact path such as "/login", or a prefix
	// followed by "*". One of them must hold. At most 32 entries of at most 255
	// characters. Without entries any path holds.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^/[^*]*[*]?$')",message="paths must start with / and have * at most once, as the last character"
	Paths []string `json:"paths,omitempty"`

	// when is a CEL expression over the request that must yield true. An absent
	// header reads as the empty string. An expression that fails at run time counts
	// as true, so that no request can talk its way out of a limit. At most 1024
	// characters. Without it nothing more is asked.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	When string `json:"when,omitempty"`

	// domain is the Envoy rate limit domain of the request. At most 255 characters.
	// Without it any domain holds, and none at all.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Domain string `json:"domain,omitempty"`

	// descriptors are Envoy descriptor entries that must all be present in one
	// descriptor of the request. At most 16 entries. Without entries any request
	// holds, also one without descriptors.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Descriptors []DescriptorMatch `json:"descriptors,omitempty"`
}

// DescriptorMatch selects one entry of an Envoy rate limit descriptor.
type DescriptorMatch struct {
	// key is the key the entry must have. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Key string `json:"key"`

	// value is the value the entry must have. At most 255 characters. Without it
	// any value holds.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Value string `json:"value,omitempty"`
}

// KeyPart is one part of the key. Exactly the member that type names is set.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Header') == has(self.header)",message="header must be set when type is Header, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'RemoteAddress') == has(self.remoteAddress)",message="remoteAddress must be set when type is RemoteAddress, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Descriptor') == has(self.descriptor)",message="descriptor must be set when type is Descriptor, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Principal') == has(self.principal)",message="principal must be set when type is Principal, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Expression') == has(self.expression)",message="expression must be set when type is Expression, and only then"
type KeyPart struct {
	// type is where the value of this part comes from: Header, RemoteAddress,
	// Descriptor, Principal or Expression. The member of that name must be set.
	//
	// +required
	Type KeyPartType `json:"type"`

	// header takes the value of a request header. Only with type Header.
	//
	// +optional
	Header *HeaderKey `json:"header,omitempty"`

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

	// principal takes the authenticated user, the SPIFFE identity or the name in
	// the client certificate. Only with type Principal.
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
	// name is the name of the header, in any case. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[-!#$%&\x27*+.^_\x60|~0-9A-Za-z]+$')`,message="name must be an HTTP header name"
	Name string `json:"name"`
}

// RemoteAddressKey takes the network of the client address, so that one client
// cannot multiply its budget with the addresses it owns.
type RemoteAddressKey struct {
	// ipv4PrefixLength is how many leading bits of an IPv4 address count, 0 to 32.
	// 0 makes all IPv4 clients one. Defaults to 32, the whole address.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	IPv4PrefixLength *int32 `json:"ipv4PrefixLength,omitempty"`

	// ipv6PrefixLength is how many leading bits of an IPv6 address count, 0 to 128.
	// 0 makes all IPv6 clients one. Defaults to 64, the network a client usually
	// owns.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	IPv6PrefixLength *int32 `json:"ipv6PrefixLength,omitempty"`
}

// DescriptorKey takes the value of a descriptor entry.
type DescriptorKey struct {
	// key is the key of the entry whose value is taken. 1 to 255 characters.
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
	// cel is the expression over the request; it must yield a string. One that
	// fails at run time is a missing part. 1 to 1024 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	CEL string `json:"cel"`
}
