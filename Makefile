# `make help` lists what there is. Everything pinned is fetched as Go modules; what is built is cached outside the tree.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)
export VERSION PLATFORMS TARGETS JOBS

GENERATED := config/crd config/rbac/role.yaml config/api/v1alpha1/zz_generated.deepcopy.go config/chart/files \
	config/monitoring/prometheusrule.yaml docs/api.md docs/metrics.md docs/cli.md
OVERLAYS := $(patsubst %/kustomization.yaml,%,$(wildcard config/*/kustomization.yaml config/overlays/*/kustomization.yaml))

# Each tool has a module of its own, so that no tool meets another's dependencies, or the product's.
tool = "$$(go -C test/tools/$(1) tool -n $(1))"

##@ Use

.PHONY: demo
demo: packages ## Migrate a lab cluster to route reflectors and back, on real parts, and count the packets lost
	@echo 'building what the demo runs; the first time that takes minutes' >&2
	@RRPOOL_PROGRAMS="$$(go run ./test/programs/build etcd kube-apiserver calico-node manager rrpool demo)"; export RRPOOL_PROGRAMS; bin/test/demo

.PHONY: demo-peering
demo-peering: export RRPOOL_CHAOS = 1
demo-peering: packages assets ## Peer two lab clusters by their managers, on real parts, and count the packets lost at each step
	go test -count=1 -timeout 15m -v -run '^TestTwoClustersPeerByTheirManagers$$' ./test/e2e

.PHONY: build
build: ## Build the manager and the command line into bin/; VERSION=v1.2.3 names the release
	@source .ci/source; mkdir -p bin; build manager bin/manager; build rrpool bin/rrpool
	@ln -sf rrpool bin/kubectl-rrpool

.PHONY: image
image: ## Make the manager's image as an OCI archive, without a daemon; PLATFORMS=linux/amd64,linux/s390x VERSION=v1.2.3
	@.ci/image

.PHONY: man
man: ## Write the manual pages of the command line into bin/man
	go run ./test/tools/reference -man bin/man

.PHONY: release-snapshot
release-snapshot: ## Make the files of a release in bin/release, and install them; VERSION=v1.2.3 TARGETS=linux_amd64
	@.ci/release
	RRPOOL_RELEASE='$(CURDIR)/bin/release' go test -count=1 -v ./test/release

##@ Check

.PHONY: test
test: packages ## Run all tests; the last lines name what was skipped and what failed
	@RRPOOL_PROGRAMS="$$(go run ./test/programs/build)"; export RRPOOL_PROGRAMS; .ci/test

.PHONY: lab
lab: export RRPOOL_CHAOS = 1
lab: ONLY ?= ^Test((TheSimulatorKnows|WhatRouters|NodesAnnounce|CalicoNodeGoesFromAllReflectorsAnd)\w+|ExistingNodesThereAndBack\w*KilledAfterEachWrite)$$
lab: packages assets ## Run what takes minutes in the lab, and CI may have the time for: single writes, routers outside, a lost calico-node, existing nodes
	go test -count=1 -timeout 25m -p 1 -run '$(ONLY)' ./test/lab ./test/e2e

.PHONY: lab-large
lab-large: export RRPOOL_CHAOS = 1
lab-large: packages assets ## Migrate 60 nodes with a BIRD each, take calico-node from all reflectors, and return; the time is compared with a person's
	go test -count=1 -timeout 30m -v -run '^TestSixtyNodesThereAndBack$$' ./test/e2e

.PHONY: walkthrough
walkthrough: ONLY ?= .
walkthrough: packages assets ## Type what the docs say, block by block, in lab clusters: quick start, operations, existing nodes, migrating, back by hand
	RRPOOL_WALKTHROUGH=1 go test -count=1 -timeout 20m -v -run '$(ONLY)' ./test/walkthrough

# promtool is built by hand: go tool leaves -tags out.
.PHONY: alerts
alerts: export RRPOOL_PROMTOOL = $(CURDIR)/bin/promtool
alerts: ## Check alerts and dashboard with Prometheus' and Grafana's own validators; ARGS=-short leaves out the mutants
	go -C test/tools/prometheus build -tags remove_all_sd -o '$(RRPOOL_PROMTOOL)' github.com/prometheus/prometheus/cmd/promtool
	go -C test/tools/monitoring test -count=1 -timeout 30m $(ARGS) ./...

.PHONY: image-check
image-check: image packages assets ## Unpack what make image has made, and run it as a pod runs it
	RRPOOL_IMAGE='$(CURDIR)/bin/rrpool-manager-image.tar' go test -count=1 -timeout 10m -v ./test/image

.PHONY: iks-check
iks-check: export CLUSTER := $(CLUSTER)
iks-check: export ORDER := $(ORDER)
iks-check: ## Compare a real IKS cluster with what rrpool assumes: IBMCLOUD_API_KEY=… CLUSTER=id; ORDER=yes also orders a worker, and deletes it
	@go build -o bin/ikscheck ./test/ikscheck; exec bin/ikscheck

.PHONY: chaos
chaos: export RRPOOL_CHAOS = 1
chaos: export RRPOOL_CHAOS_TIME = $(TIME)
chaos: export RRPOOL_CHAOS_SEED = $(SEED)
chaos: TIME ?= 1h
chaos: packages assets ## Break everything at random in the lab for an hour, and count what is lost; TIME=5m, SEED=7 as you like
	go test -count=1 -timeout 0 -v -run '^TestChaos(SeesABadOperator)?$$' ./test/chaos

.PHONY: soak
soak: export RRPOOL_CHAOS = 1
soak: export RRPOOL_E2E_FULL = 1
soak: CALICO ?= $(basename $(notdir $(wildcard test/programs/calico/*.mod)))
soak: OLD = ^Test(AMigrationAllAtOnce|AGatedMigration|WhatTheSessionGate|TheSimulatorAgreesWithBIRDOnASample|MigrationAndReturn$$)
soak: packages assets ## Run all that takes long (about three hours): single failures, every write and combination, properties, a cluster at rest, older Calico, kind
	@result=0; \
	go test -count=1 -timeout 30m ./controllers/plan/rollout -rapid.checks=200 -sequences=1000 || result=1; \
	go test -count=1 -timeout 60m -v ./cloud/iks ./cmd/manager || result=1; \
	go test -count=1 -timeout 60m -v -p 1 -skip '^TestChaos' ./test/chaos ./test/lab ./test/e2e || result=1; \
	for release in $(CALICO); do \
		RRPOOL_CALICO=$$release RRPOOL_E2E_FULL= go test -count=1 -timeout 15m -v -p 1 -run '$(OLD)' ./test/lab ./test/e2e || result=1; done; \
	test/kind/run || result=1; \
	exit $$result

.PHONY: kind-test
kind-test: ## Type docs/kind.md into a real kind cluster, break it, and count the packets lost; without a registry its images are built here
	@test/kind/run

.PHONY: model-check
model-check: ## Explore a million states of small clusters under the rollout, and see each gate missed that is taken out
	RRPOOL_MODELCHECK=full RRPOOL_CHAOS=1 go test -count=1 -timeout 30m -v ./test/modelcheck

.PHONY: fuzz
fuzz: ## Run every fuzz target; TIME=30s for each, JOBS=2 at a time
	@TIME='$(TIME)' JOBS='$(JOBS)' .ci/fuzz

.PHONY: bench-reflector
bench-reflector: SIZES ?= 100,500,1000,2000
bench-reflector: PREFIXES ?= 0
bench-reflector: packages assets ## Measure what one route reflector carries, on a real BIRD; SIZES=500 PREFIXES=5000: clients, and all their prefixes
	@bird --version; grep -m 1 'model name' /proc/cpuinfo || uname -m; nproc; uname -sr; echo
	@ulimit -Sn hard; go run ./test/bench --sizes '$(SIZES)' --prefixes '$(PREFIXES)'

.PHONY: bench-scale
bench-scale: SIZES ?= 100,1000,5000
bench-scale: TIME ?= 10m
bench-scale: assets ## Measure the manager in clusters of 100, 1,000 and 5,000 nodes; SIZES=100 TIME=1m, or OPERATOR=program ARGS='its arguments'
	@go run ./test/bench/scale --sizes '$(SIZES)' --rest '$(TIME)' --operator '$(OPERATOR)' -- $(ARGS)

.PHONY: lint
lint: ## Run golangci-lint
	$(call tool,golangci-lint) run

.PHONY: audit
audit: build ## Check what is linked in: sums, licences, SBOMs into bin/, known vulnerabilities
	@.ci/audit

.PHONY: reproduce
reproduce: ## Build twice, from two folders and with an empty cache, and compare the bytes
	@.ci/reproduce

.PHONY: verify
verify: generate manifests docs chart ## Fail when generated files are not what the sources say, a kustomization does not build; then print the sizes
	@dirty="$$(git status --porcelain -- $(GENERATED))"; \
	if [[ -n "$$dirty" ]]; then \
		git --no-pager diff -- $(GENERATED); \
		printf 'generated files differ from what is committed; run make generate manifests docs chart and commit:\n%s\n' "$$dirty" >&2; exit 1; \
	fi
	@kustomize=$(call tool,kustomize); \
	for overlay in $(OVERLAYS); do "$$kustomize" build "$$overlay" >/dev/null; done
	@.ci/size

.PHONY: size
size: ## Print how many lines and files there are, beside the ceilings
	@.ci/size

##@ Develop

.PHONY: generate
generate: ## Generate deepcopy functions
	$(call tool,controller-gen) object paths=./config/api/...

.PHONY: manifests
manifests: ## Generate the CRD and the RBAC roles
	$(call tool,controller-gen) crd:maxDescLen=4096 paths=./config/api/... output:crd:dir=config/crd
	$(call tool,controller-gen) rbac:roleName=rrpool-manager paths=./controllers/... output:rbac:dir=config/rbac

.PHONY: docs
docs: ## Write docs/api.md from the API types, docs/cli.md from the commands, docs/metrics.md from the metrics
	go run ./test/tools/reference -markdown docs/cli.md
	f=docs/metrics.md; { sed '/^|---/q' $$f; go run ./test/tools/metrics; } >$$f.new; mv $$f.new $$f
	f=config/monitoring/prometheusrule.yaml; { sed '/^spec:$$/q' $$f; sed -e '/^#/d' -e 's/./  &/' config/monitoring/rules.yaml; } >$$f.new; mv $$f.new $$f
	$(call tool,crd-ref-docs) --source-path=config/api --config=test/tools/crd-ref-docs/config.yaml \
		--renderer=markdown --output-path=docs/api.md --log-level=ERROR
	sed -i -e '/^_Appears in:_$$/,/^$$/d' -e '/^_Validation:_$$/,/^$$/d' -e '/^_Underlying type/,/^$$/d' docs/api.md
	# The fields' own descriptions say what the values of some types mean.
	said='^(DeletionPolicy|Endpoint|Gate|Promotion|UpdateWorkers)$$'; awk -v said="$$said" '/^####/ {skip = $$2 ~ said} !skip' docs/api.md | \
		sed -E 's/\[(DeletionPolicy|Endpoint|Gate|Promotion|UpdateWorkers)\]\(#[a-z]+\)/\1/' >docs/api.md.new; mv docs/api.md.new docs/api.md
	sed -i -e '/^$$/N;/^\n$$/D' docs/api.md; sed -i '/^#### /{n;/^$$/d}' docs/api.md

.PHONY: chart
chart: manifests docs ## Copy into the Helm chart what config has, so that it is written once
	@kustomize=$(call tool,kustomize); \
	for part in crd rbac policy manager monitoring; do "$$kustomize" build config/$$part >config/chart/files/$$part.yaml; done; \
	"$$kustomize" build config/overlays/iks/components/external-secret >config/chart/files/external-secret.yaml

.PHONY: fmt
fmt: ## Format all Go code
	$(call tool,golangci-lint) fmt

.PHONY: assets
assets: ## Build the control plane and the node agent of the tests ahead of time
	@go run ./test/programs/build >/dev/null

.PHONY: packages
packages: ## Install what the lab needs from the distribution: bird
	@.ci/packages

.PHONY: clean
clean: ## Remove what was built in the tree
	rm -rf bin

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile
