# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Tools are pinned in tools/go.mod, tools/actionlint/go.mod, tools/vale/go.mod and tools/npm and run from there. Targets that
# write tracked files: generate, manifests, golden, fmt and lint-fix. Test targets never do.

SHELL := /usr/bin/env bash -o pipefail
.DEFAULT_GOAL := help

# VERSION is the output of `weir version`.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# COMMIT and DATE identify the commit, so that builds are reproducible.
COMMIT ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
DATE ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)

# IMAGE is the name of the image that `make image` builds, for GOARCH.
IMAGE ?= localhost/weir:$(VERSION)

# RELEASE is the version of `make release`.
RELEASE ?=

# SPECS=all makes `make e2e` run every spec.
SPECS ?=

# FUZZTIME is the -fuzztime of each target in `make fuzz`.
FUZZTIME ?= 10s

# SOAK is the length of `make soak`, FLOOD the length of the flood in `make flood`.
SOAK ?= 10m
FLOOD ?= 3m
SEED ?=

# HOSTILE is the length of all attacks of `make hostile`, without waiting for other processes.
HOSTILE ?= 90s

# BENCH selects the benchmarks of `make bench`.
BENCH ?= .

# ROUNDS is the number of paired rounds of `make bench-compare`, DURATION the length of one
# measurement; fewer or shorter ones mislead.
ROUNDS ?= 6
DURATION ?= 2s

# SECTIONS limits `make bench-compare` to some sections, by the names in
# test/bench/compare_test.go, such as SECTIONS="gRPC HTTP".
SECTIONS ?=

# RATELIMIT_BIN and GUBERNATOR_BIN are programs of envoyproxy/ratelimit and gubernator, to be
# compared over gRPC, also by `make conform`, and LIMITADOR_BIN is the one of Limitador.
RATELIMIT_BIN ?=
GUBERNATOR_BIN ?=
LIMITADOR_BIN ?=

# CONFORM are flags of `make conform`, such as CONFORM="--scenarios edge --markdown results.md".
CONFORM ?=

# One set of flags for everything that compiles, so that tests, linters and the image share it (hack/flags.sh).
export CGO_ENABLED := 0
FLAGS := -trimpath -tags=grpcnotrace
export GOFLAGS := $(strip $(filter-out $(FLAGS),$(GOFLAGS)) $(FLAGS))

# SECONDS_OF_SEEDS is how long `make seeds` runs.
SECONDS_OF_SEEDS ?= 120

LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

TOOL := go tool -modfile=tools/go.mod

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: kubectl-weir ## Build bin/weir and bin/kubectl-weir.
	go build -ldflags "$(LDFLAGS)" -o bin/weir ./cmd/weir

# PLUGIN is the path of the plugin that `make kubectl-weir` builds.
PLUGIN ?= bin/kubectl-weir

.PHONY: kubectl-weir
kubectl-weir: ## Build the kubectl plugin.
	go build -ldflags "$(LDFLAGS)" -o $(PLUGIN) ./cmd/kubectl-weir

# The labels are as in the Dockerfile.
.PHONY: image
image: ## Build the image for GOARCH without Docker, as a tar in bin/images (IMAGE=name:tag).
	@LDFLAGS="$(LDFLAGS)" hack/image/program.sh ./cmd/weir $(IMAGE) -cmd manager -created "$(filter-out unknown,$(DATE))" \
		-label org.opencontainers.image.title="Weir" \
		-label org.opencontainers.image.description="Rate limits and abuse protection for Kubernetes" \
		-label org.opencontainers.image.source="https://github.com/weir-dev/weir" \
		-label org.opencontainers.image.version="$(VERSION)" \
		-label org.opencontainers.image.revision="$(COMMIT)" \
		-label org.opencontainers.image.created="$(DATE)" \
		-label org.opencontainers.image.licenses="Apache-2.0"

.PHONY: release
release: ## Build and verify the files of a release in bin/release (RELEASE=1.2.3, default: the chart's version).
	hack/release.sh $(RELEASE)

.PHONY: run
run: ## Run Weir on a real API server, with the sample policies; Ctrl-C stops everything.
	@go build -o bin/weir-run ./hack/run && bin/weir-run

.PHONY: standalone
standalone: ## Run the decision endpoint without Kubernetes, with the sample policies.
	go run ./cmd/weir standalone --policies config/samples \
		--http-address 127.0.0.1:8080 --grpc-address 127.0.0.1:8081 --metrics-address 127.0.0.1:8082

.PHONY: clean
clean: cluster-down ## Remove all files that were built or fetched.
	rm -rf bin tools/npm/node_modules

##@ Cluster

.PHONY: cluster-up
cluster-up: ## Bring up a Kubernetes cluster of one node on this machine, as root.
	hack/cluster/up.sh

.PHONY: cluster-down
cluster-down: ## Take the cluster down and restore the machine.
	hack/cluster/down.sh

##@ Generated files

.PHONY: generate
generate: ## Generate Go code (deep copies).
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: ## Generate manifests from the markers in the code, the chart's CRD and README, and the reference of fields.
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	$(TOOL) controller-gen rbac:roleName=weir-manager paths=./internal/... output:rbac:dir=config/rbac
	$(TOOL) controller-gen webhook paths=./internal/webhook/... output:webhook:dir=config/webhook
	cp config/crd/bases/*.yaml charts/weir/files/crds/
	go run ./hack/chart charts/weir
	go run ./hack/fields config/crd/bases/ratelimit.weir.dev_ratelimitpolicies.yaml docs/spec/fields.md
	go run ./hack/fields config/crd/bases/ratelimit.weir.dev_ratelimitkeygroups.yaml docs/spec/fields-keygroup.md
	go run ./hack/fields config/crd/bases/ratelimit.weir.dev_ratelimitexceptions.yaml docs/spec/fields-exception.md

.PHONY: golden
golden: ## Rewrite the golden files from the code's current behavior; read the diff.
	hack/golden.sh

##@ Checks

.PHONY: lint
lint: ## Run the linters and the import rules.
	$(TOOL) golangci-lint run ./...
	cd client && GOWORK=off go tool -modfile=../tools/go.mod golangci-lint run --config ../.golangci.yml ./...
	cd test/gitops && GOWORK=off go tool -modfile=../../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...

.PHONY: lint-fix
lint-fix: ## Run the linters and apply their fixes.
	$(TOOL) golangci-lint run --fix ./...
	cd client && GOWORK=off go tool -modfile=../tools/go.mod golangci-lint run --fix --config ../.golangci.yml ./...
	cd test/gitops && GOWORK=off go tool -modfile=../../tools/go.mod golangci-lint run --fix --config ../../.golangci.yml ./...

.PHONY: openapi
openapi: ## Check the OpenAPI document with Redocly.
	hack/npm.sh redocly lint --config tools/npm/redocly.yaml --format stylish internal/limiter/frontend/httpapi/openapi.yaml

.PHONY: docs
docs: ## Build the site of docs/ in bin/docs; a dead link or anchor fails.
	hack/docs.sh

.PHONY: prose
prose: ## Check the prose of documents, comments and messages with Vale.
	hack/prose.sh

.PHONY: workflows
workflows: ## Check the workflows in .github with actionlint.
	GOWORK=off go tool -modfile=tools/actionlint/go.mod actionlint -color=false

.PHONY: fmt
fmt: ## Format the Go code.
	$(TOOL) golangci-lint fmt ./...
	cd client && GOWORK=off go tool -modfile=../tools/go.mod golangci-lint fmt --config ../.golangci.yml ./...
	cd test/gitops && GOWORK=off go tool -modfile=../../tools/go.mod golangci-lint fmt --config ../../.golangci.yml ./...

.PHONY: verify
verify: ## Check generated files, modules, linters and prose.
	hack/verify.sh

##@ Tests

.PHONY: test
test: ## Run the tests that need only Go, a C compiler and redis-server, with few seeds: minutes.
	hack/redis.sh
	hack/test.sh unit

.PHONY: test-race
test-race: ## Run the race detector on everything that links no Kubernetes.
	hack/redis.sh
	hack/test.sh race

.PHONY: test-kube
test-kube: kube-tools programs ## Run the tests on a kube-apiserver: controllers, webhook, chart, plugin, whole managers.
	hack/test.sh kube

.PHONY: test-proxies
test-proxies: proxy-tools programs ## Run Weir behind Envoy, nginx, HAProxy, Caddy, and services in several languages.
	hack/test.sh proxies

.PHONY: test-console
test-console: ## Run the web console in a browser.
	hack/redis.sh
	hack/browser.sh
	hack/test.sh console

.PHONY: test-process
test-process: programs ## Run weir as processes that share Redis.
	hack/redis.sh
	hack/test.sh process

.PHONY: test-faults
test-faults: kube-tools programs ## Break real servers under load; UPDATE=docs writes docs/reliability.md.
	hack/test.sh faults $(if $(UPDATE),-run Faults -page $(CURDIR)/$(UPDATE))

.PHONY: test-all
test-all: ## Run every test with every seed, on Valkey, too, with the race detector wherever it compiles; needs everything.
	hack/test-all.sh

.PHONY: seeds
seeds: ## Compare stores and engine with the model at random for SECONDS_OF_SEEDS, on Redis and Valkey, from a seed of the commit on.
	hack/redis.sh valkey
	hack/seeds.sh $(SECONDS_OF_SEEDS)

# PKG are packages, COUNT is how often each test runs; RUN selects tests.
PKG ?=
COUNT ?= 10
RUN ?= .

.PHONY: steady
steady: ## Run the tests of PKG COUNT times beside busy processes, and print the failures by test.
	hack/steady.sh '$(PKG)' '$(COUNT)' '$(RUN)'

.PHONY: programs
programs: ## Build weir and kubectl-weir for the tests that run them as processes.
	hack/programs.sh

.PHONY: kube-tools
kube-tools:
	hack/redis.sh
	hack/prometheus.sh
	hack/kube/build.sh
	hack/cluster/build.sh helm

.PHONY: proxy-tools
proxy-tools:
	hack/redis.sh
	hack/proxies.sh
	hack/caddy.sh
	hack/envoy.sh

.PHONY: envoy
envoy: ## Fetch Envoy, pinned in hack/envoy, for the tests, and print its path (ENVOY_BIN=path: use another).
	@hack/envoy.sh

# The files in docs/console are large, so take them only for pages that look different.
.PHONY: screenshots
screenshots: ## Take the screenshots of docs/console.md.
	hack/browser.sh
	mkdir -p docs/console
	go test -count=1 ./test/console -run Screenshots -screenshots $(CURDIR)/docs/console

.PHONY: flood
flood: programs ## Send 5,000 new keys a second to a Redis of 256 MB (FLOOD=3m), and compare the latency of known ones.
	hack/redis.sh
	go test -count=1 -timeout 0 ./test/faults -run 'TestAFloodOfNewKeys$$' -v -flood $(FLOOD)

.PHONY: soak
soak: programs ## Disturb Weir at random (SOAK=10m, SEED=number), and print the accounting.
	hack/redis.sh
	go test -count=1 -timeout 0 ./test/faults -run 'TestSoak$$' -v -soak $(SOAK) $(if $(SEED),-seed $(SEED))

.PHONY: hostile
hostile: programs ## Attack Weir by the worst policies and requests (HOSTILE=90s), and judge what others see.
	hack/redis.sh
	go test -count=1 -timeout 30m ./test/hostile -v -hostile $(HOSTILE)

.PHONY: conform
conform: programs ## Judge from outside what Weir admits, and other limiters whose programs are given (CONFORM=flags).
	hack/redis.sh
	go run ./test/conform --weir bin/test/weir --ratelimit '$(RATELIMIT_BIN)' --gubernator '$(GUBERNATOR_BIN)' --limitador '$(LIMITADOR_BIN)' $(CONFORM)

.PHONY: e2e
e2e: ## Run the end-to-end tests on the cluster of KUBECONFIG, else on a new one (SPECS=all: with every spec of Envoy Gateway).
	SPECS=$(SPECS) hack/e2e.sh

.PHONY: bench
bench: kube-tools programs ## Run the benchmarks (BENCH=regexp).
	go test -run '^$$' -bench '$(BENCH)' -benchmem $$(go list ./... | grep -v '/test/bench$$')

.PHONY: scale
scale: ## Measure cold start, memory and edits with 1,000 to 20,000 policies, 200,000 keys of a group, and 1 to 1,000 replicas.
	hack/redis.sh
	hack/kube/build.sh
	hack/programs.sh
	go test -run '^$$' -bench BenchmarkScale -benchtime 1x -timeout 2h ./test/manager
	go test -run '^$$' -bench BenchmarkStandaloneStart -benchtime 3x ./test/manager
	go test -run '^$$' -bench BenchmarkKeyGroups -benchtime 1x -timeout 15m ./test/manager
	go test -run '^$$' -bench BenchmarkStatusWrites -benchtime 5x ./test/manager
	go test ./internal/limiter/registry -run '^$$' -bench 'BenchmarkReplicas|BenchmarkRollouts' -benchtime 200x -timeout 1h \
		$(if $(UPDATE),-plot "$(CURDIR)/$(UPDATE)/replicas.svg")
	go test ./internal/limiter/registry -run '^$$' -bench BenchmarkHeartbeats -benchtime 5000x
	go test ./internal/limiter/registry -run '^$$' -bench BenchmarkFailover -benchtime 50x -timeout 30m

.PHONY: bench-compare
bench-compare: programs ## Compare Weir with no-op services, 20 minutes (SECTIONS=names ROUNDS=6); UPDATE=docs writes docs/performance.md.
	hack/redis.sh
	hack/envoy.sh
	go test -run '^$$' -bench 'BenchmarkCompare$$' -benchtime 1x -timeout 60m ./test/bench \
		-rounds $(ROUNDS) -duration $(DURATION) -sections "$(SECTIONS)" \
		-ratelimit-bin "$(abspath $(RATELIMIT_BIN))" -gubernator-bin "$(abspath $(GUBERNATOR_BIN))" \
		-report "$(if $(UPDATE),$(CURDIR)/$(UPDATE))"

.PHONY: bench-check
bench-check: programs ## Fail if Weir is slower than documented: beside a no-op service, by its instructions, or an expression by its price.
	hack/redis.sh
	hack/valgrind.sh
	go test -run '^$$' -bench 'BenchmarkCheck$$' -benchtime 1x -timeout 5m ./test/bench -rounds 10 -duration 1s
	go test -run '^$$' -bench 'BenchmarkInstructions$$' -benchtime 1x -timeout 15m ./test/bench
	go test -run '^$$' -bench 'BenchmarkHostileExpressions$$' -benchtime 1x -timeout 5m ./internal/limiter/engine

.PHONY: fuzz
fuzz: ## Run every fuzz target (FUZZTIME=10s, or 1000x for a number of inputs).
	hack/redis.sh
	hack/fuzz.sh $(FUZZTIME)
