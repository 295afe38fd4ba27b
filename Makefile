# RAMCloud for Kubernetes. `make` alone lists the targets; the work is done by the scripts in hack/ and e2e/.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export RAMCLOUD_JOBS SEEDS SCENARIO TRACE SHRINK

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build and test
.PHONY: deps
deps: ## Install what is missing (as root), or print the one command that does
	@hack/deps.sh

.PHONY: deps-build
deps-build:
	@hack/deps.sh build

.PHONY: build
build: deps-build ## Build ramcloudd, ramcloud, ramcloud-operator and kubectl-ramcloud into build/bin
	@hack/build.sh

.PHONY: test
test: deps-build ## Run every test that needs no cluster; STAGES="unit go" runs only these
	@hack/test.sh $(STAGES)

.PHONY: quick
quick: deps-build ## Run what gives an early answer: formatting of what changed, quick tests of all layers (three minutes, warm)
	@hack/quick.sh $(BASE)

.PHONY: lint
lint: deps-build ## Check formatting, clang-tidy, go vet, golangci-lint and shellcheck
	@hack/lint.sh

.PHONY: fuzz
fuzz: deps-build ## Fuzz whatever reads bytes from outside, FUZZ_SECONDS=20 for each fuzzer
	@hack/fuzz.sh

.PHONY: former
former: deps-build ## Run the programs of a former commit (test/former-commit) together with those of today; builds them once
	@hack/test.sh former

.PHONY: mutants
mutants: deps-build ## Plant the bugs in test/mutants one by one; the tests must find each; NAMES="…" for some
	@hack/mutants.sh $(NAMES)

.PHONY: sim
sim: deps-build ## Simulate clusters: SEEDS=A..B, SCENARIO=name; TRACE=1 shows one seed, SHRINK=1 finds what a failure needs
	@hack/sim.sh

.PHONY: soak
soak: deps-build ## What tests of recovery and cleaning sample, whole (hours): PARTS="power recovery cleaning processes", SEEDS=A..B
	@hack/soak.sh $(PARTS)

.PHONY: coverage
coverage: deps-build ## Line coverage of log, store, replication, backup, coordinator, in build/coverage
	@hack/coverage.sh

.PHONY: bench
bench: build ## Run the comparison benchmarks and write docs/benchmarks; PARTS="latency peers store" for some of them
	@hack/bench.sh $(PARTS)

.PHONY: accept
accept: build ## Print the table of acceptance figures; AGAINST=COMMIT: beside another commit's, taking turns
	@hack/accept.sh

.PHONY: docs-test
docs-test: build ## Run the commands that the documentation shows
	@hack/docs_test.py

##@ Run
# A user who may not write here can still run a demo of what is built.
.PHONY: demo
demo: $(if $(wildcard build/bin/ramcloudd),,build) ## A cluster on this machine with real data, without Kubernetes (any user)
	@hack/demo.sh

.PHONY: images
images: deps ## Build the container images of the node, the operator and etcd
	@hack/images.sh

.PHONY: up
up: deps ## A Kubernetes cluster with the operator, a RAMCloudCluster and real data in it
	@hack/up.sh

.PHONY: down
down: ## Remove what `make up` made, and show that nothing is left behind
	@e2e/kind/cluster.sh down

.PHONY: e2e
e2e: deps ## Run the end-to-end suite (makes the cluster when there is none)
	@hack/e2e.sh

.PHONY: format
format: deps-build ## Let clang-format and gofmt write
	@hack/lint.sh --fix

.PHONY: clean
clean: ## Remove build/ (the caches in ~/.cache/ramcloud stay)
	rm -rf build
