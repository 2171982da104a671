// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nginx sends the same requests to nginx, with the configuration that the controller of ingress-nginx renders for some
// Ingresses, and to Weir with the policies that these Ingresses convert to. Both must name the same Ingress.
//
// Read the files in this order:
//
//	doc.go             this page
//	shapes_test.go     Ingresses by hand
//	random_test.go     Ingresses and requests at random
//	controller_test.go which server and location the controller makes of an Ingress
//	config_test.go     the configuration of nginx, and its answers
//	weir_test.go       the answers of Weir
//	agree_test.go      the comparison
package nginx
