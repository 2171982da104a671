# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by every script that compiles Go: one set of flags, so that tests, linters and the
# image share what is compiled. Only the race detector and fuzzing need another compile.
# grpcnotrace leaves pages out that grpc renders by templates: see hack/methods.sh. A -tags
# on a command line replaces it, and has to repeat it.
# shellcheck shell=bash

export CGO_ENABLED=0
for flag in -trimpath -tags=grpcnotrace; do
  case " ${GOFLAGS:-} " in
    *" $flag "*) ;;
    *) export GOFLAGS="${GOFLAGS:+$GOFLAGS }$flag" ;;
  esac
done
