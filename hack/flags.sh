# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by every script that compiles Go: one set of flags, so that tests, linters and the
# image share what is compiled. Only the race detector and fuzzing need another compile.
# shellcheck shell=bash

export CGO_ENABLED=0
case " ${GOFLAGS:-} " in
  *" -trimpath "*) ;;
  *) export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath" ;;
esac
