# `make` lists the targets; `make test` is what continuous integration runs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

GO ?= go
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The linter takes minutes to build: once per machine and version, outside the repository.
LINT_PKG := github.com/golangci/golangci-lint/v2
LINT_VERSION := $(shell awk '$$1 == "$(LINT_PKG)" { print $$2 }' packaging/tools.mod)
LINT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ioprio-agent/bin/golangci-lint-$(LINT_VERSION)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## build bin/ioprio-agent, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ioprio-agent ./cmd/ioprio-agent

.PHONY: test
test: deps unit vet lint race fuzz mutants e2e ## everything below, in this order: deps unit vet lint race fuzz mutants e2e
	@echo "==> all tests passed"

.PHONY: unit
unit: ## unit tests
	@echo "==> unit: go test ./..."
	@$(GO) test ./...

.PHONY: vet
vet: ## go vet, the virtual-machine tests included
	@echo "==> vet: go vet ./..."
	@$(GO) vet ./...
	@$(GO) vet -tags vm,guest ./...

.PHONY: lint
lint: $(LINT) ## golangci-lint, with the rules of .golangci.yml
	@echo "==> lint: golangci-lint $(LINT_VERSION)"
	@$(LINT) run ./...

$(LINT): packaging/tools.mod
	@echo "==> lint: building golangci-lint $(LINT_VERSION), once per machine; this takes minutes"
	@mkdir -p $(@D)
	@CGO_ENABLED=0 $(GO) build -modfile=packaging/tools.mod -o $@ $(LINT_PKG)/cmd/golangci-lint
	@touch $@

.PHONY: race
race: ## unit tests under the race detector
	@echo "==> race: go test -race ./..."
	@command -v "$$($(GO) env CC)" >/dev/null || { echo "race: the race detector needs a C compiler: apt-get install gcc libc6-dev" >&2; exit 1; }
	@CGO_ENABLED=1 $(GO) test -race ./...

# golang.org/issue/75804: Go 1.26 may end a fuzz run that found nothing with "context deadline exceeded".
# A real finding always names the failing input.
.PHONY: fuzz
fuzz: ## each fuzz target for 5 seconds
	@echo "==> fuzz: each target for 5 s"
	@list=$$($(GO) test -list '^Fuzz' ./...) || { echo "$$list"; exit 1; }; \
	awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' <<<"$$list" | \
	while read -r pkg name; do \
		if out=$$($(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime 5s "$$pkg" 2>&1 </dev/null) || \
			{ grep -q '^ *context deadline exceeded$$' <<<"$$out" && ! grep -q 'Failing input' <<<"$$out"; }; then \
			echo "ok   $$pkg $$name"; \
		else \
			echo "FAIL $$pkg $$name"; echo "$$out"; exit 1; \
		fi; \
	done

.PHONY: mutants
mutants: ## break one rule at a time and see the unit tests turn red
	@echo "==> mutants: the unit tests against broken rules"
	@$(GO) run ./e2e/mutants

.PHONY: e2e
e2e: deps ## the agent on real kernels and systemd, in virtual machines; builds their images once
	@echo "==> e2e: virtual machines"
	@$(GO) test -tags vm -count=1 -timeout 40m -v -run '^TestVM$$' ./e2e

.PHONY: demo
demo: deps ## watch the agent save a starved etcd, in a virtual machine
	@$(GO) run ./e2e/demo

.PHONY: bench-agent
bench-agent: build ## what the agent itself costs
	@$(GO) run ./e2e/bench bin/ioprio-agent

.PHONY: deps
deps: ## install what the virtual machines need (Debian packages); does nothing if all is there
	@PATH="$$PATH:/usr/sbin:/sbin"; missing=(); \
	command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86); \
	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap); \
	command -v mke2fs >/dev/null || missing+=(e2fsprogs); \
	[[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || missing+=(debian-archive-keyring); \
	(( $${#missing[@]} )) || exit 0; \
	echo "==> deps: installing $${missing[*]}"; \
	command -v apt-get >/dev/null || { echo "deps: no apt-get here: install these by hand" >&2; exit 1; }; \
	root=(env DEBIAN_FRONTEND=noninteractive); \
	if (( EUID )); then \
		command -v sudo >/dev/null || { echo "deps: run this as root, or install sudo" >&2; exit 1; }; \
		root=(sudo "$${root[@]}"); \
	fi; \
	"$${root[@]}" apt-get update; \
	"$${root[@]}" apt-get install -y --no-install-recommends "$${missing[@]}"

.PHONY: clean
clean: ## remove bin and dist; the caches outside the repository stay
	rm -rf bin dist
