// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package steps decides a call in this process, in the order of the scripts in Redis: judge every entry,
// spend if nothing denies, report. A store brings the States of its entries, with the arithmetic of the
// algorithms.
//
// The store in memory and the model of the tests share these steps, and no arithmetic. The
// tests compare the model with Redis, whose scripts have steps of their own.
//
// Reading order: states.go (what a store brings), decide.go (the steps of a
// check), hold.go (the steps of reservations), holdset.go (the holds of a key).
package steps
