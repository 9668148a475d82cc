# Cleave. Only Go, gcc, make and git need to be there; the rest is built from the Go
# module proxy and kept in the cache folder. Every target does its own set-up.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
VERSION   := $(VERSION)# asked once, though commits may come meanwhile
REGISTRY  ?= ghcr.io/cleave-dra
NAMESPACE ?= cleave-system
# BASE_IMAGE of our images, which must be as new as this machine (glibc). Empty: one
# that hack/kind makes from Debian packages, so that no registry is needed.
BASE_IMAGE ?=
# HELM_ARGS are more arguments for `helm upgrade`, say --set logVerbosity=6.
HELM_ARGS ?=
# RUN picks tests: make e2e RUN=TestWholeGPU.
RUN ?= .

BIN   := $(CURDIR)/bin
TOOLS := $(or $(CLEAVE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cleave)/make
KIND  := $(TOOLS)/cleave-kind
GOLANGCI_LINT := $(TOOLS)/golangci-lint-v2.15.0
LOGCHECK      := $(TOOLS)/logcheck-v0.11.0
HOOK          := $(TOOLS)/nvidia-cdi-hook-$(shell sed -n 's|.*/nvidia-container-toolkit v|v|p' go.mod)
# Symbols of NVML are bound when they are called, since the library comes with the
# driver; some distributions make gcc bind all of them at start.
LDFLAGS := -extldflags=-Wl,-z,lazy
GO_TEST := go test -timeout=30m -ldflags='$(LDFLAGS)'
# Recipes that need the cluster start with this.
WITH_CLUSTER = KUBECONFIG="$$($(KIND) kubeconfig)"; tools="$$($(KIND) tools)"; export KUBECONFIG PATH="$$tools:$$PATH";

##@ The main job

.PHONY: demo
demo: install ## Bring up a cluster with simulated GPUs, install Cleave, run the demo
	$(WITH_CLUSTER) go run ./demo

.PHONY: demo-down
demo-down: $(KIND) ## Remove everything that demo or e2e made (caches stay)
	$(KIND) down

##@ Tests

.PHONY: test
test: ## Run all tests that need no cluster, with the race detector
	$(GO_TEST) -race ./...
	go -C hack/kind test -race ./...

.PHONY: e2e
e2e: install ## Run the end-to-end tests on a kind cluster
	$(WITH_CLUSTER) $(GO_TEST) -tags=e2e -count=1 -v -run='$(RUN)' ./test/e2e/...

.PHONY: soak
soak: install ## Run the long tests on a kind cluster
	$(WITH_CLUSTER) $(GO_TEST) -tags=soak -count=1 -timeout=4h -v -run='$(RUN)' ./test/...

.PHONY: bench
bench: ## Run the benchmarks
	go test -ldflags='$(LDFLAGS)' -run='^$$' -bench='$(RUN)' -benchmem ./...

.PHONY: verify
verify: ## Check generated files, format, vet, lint; needs a clean tree in CI
	before="$$(git status --porcelain; git diff HEAD | git hash-object --stdin)"; \
	$(MAKE) generate; \
	after="$$(git status --porcelain; git diff HEAD | git hash-object --stdin)"; \
	[[ "$$before" == "$$after" ]] || { git status --short; echo 'verify: make generate changed files: commit them'; exit 1; }
	unformatted="$$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l)"; \
	[[ -z "$$unformatted" ]] || { echo "verify: run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet -tags=e2e,soak ./...
	go -C hack/kind vet ./...
	$(MAKE) lint

.PHONY: generate
generate: ## Write the generated files anew
	go generate ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) $(LOGCHECK) ## Run golangci-lint (floors, errors, style) and logcheck (contextual logging)
	$(GOLANGCI_LINT) run ./...
	cd hack/kind; $(GOLANGCI_LINT) run ./...
	$(LOGCHECK) -check-contextual ./...

##@ Building

.PHONY: binaries
binaries: $(HOOK) ## Build what runs on nodes, into bin/
	go build -o $(BIN)/ -ldflags="-s -w -X main.version=$(VERSION) $(LDFLAGS)" ./cmd/...
	pkg/simhw/shim/build.sh $(BIN)/shim
	cp $(HOOK) $(BIN)/nvidia-cdi-hook

.PHONY: image
image: binaries $(KIND) ## Build the container images
	base='$(BASE_IMAGE)'; base="$${base:-$$($(KIND) base-image)}"; \
	for target in node simhw; do \
		tar -c -C deployments/container Dockerfile -C $(BIN) cleave-node cleave-filter nvidia-cdi-hook cleave-simhw shim | \
			docker build --quiet --target=$$target --build-arg=BASE_IMAGE="$$base" \
				--tag=$(REGISTRY)/cleave$$([[ $$target == node ]] || echo -$$target):$(VERSION) -; \
	done

.PHONY: cluster
cluster: $(KIND) ## Bring up the kind cluster only
	$(KIND) up

.PHONY: install
install: cluster image ## Bring up the cluster and install Cleave in it
	$(KIND) base-image >/dev/null # the pods of demo and tests run it
	$(KIND) load cleave-base:latest $(REGISTRY)/cleave:$(VERSION) $(REGISTRY)/cleave-simhw:$(VERSION)
	images="$$(docker image inspect --format='{{.Id}}' $(REGISTRY)/cleave:$(VERSION) $(REGISTRY)/cleave-simhw:$(VERSION) | paste -sd' ')"; \
	$(WITH_CLUSTER) helm upgrade --install cleave deployments/helm/cleave \
		--namespace=$(NAMESPACE) --create-namespace --values=deployments/helm/kind.yaml \
		--set-string=image.repository=$(REGISTRY)/cleave,image.tag=$(VERSION) \
		--set-string=simulated.image.repository=$(REGISTRY)/cleave-simhw,simulated.image.tag=$(VERSION) \
		--set-string="podAnnotations.cleave\.dev/images=$$images" \
		--wait --timeout=3m $(HELM_ARGS) || { kubectl --namespace=$(NAMESPACE) get pods,events; exit 1; }

.PHONY: FORCE
$(KIND): FORCE
	@go -C hack/kind build -o $@ .

$(GOLANGCI_LINT): package = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(LOGCHECK): package = sigs.k8s.io/logtools/logcheck
# Static, because it runs on the host, whose C library may be older than ours.
$(HOOK): package = github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook
$(HOOK): flags = -tags=netgo,osusergo -ldflags='-s -w -extldflags=-static'
$(GOLANGCI_LINT) $(LOGCHECK) $(HOOK):
	@mkdir -p $(@D)
	dir=$$(mktemp -d $@.XXXXXX); \
	GOBIN=$$dir go install $(flags) $(package)@v$(lastword $(subst -v, ,$@)); \
	mv $$dir/* $@; rmdir $$dir

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
