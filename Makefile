# Gateway. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The version of the programs and of the Debian package.
VERSION  := 1.0.0
# The public key that licenses are verified with, as `gateway-license keypair` prints it. The development key is for trials only, because its private
# key is public. Releases must use another one.
LICENSE_PUBLIC_KEY ?= $(shell cat packaging/license/development.pub)
APP      := edge.internal/gateway/internal/app
GO_FLAGS := -buildvcs=false -ldflags '-s -w -X $(APP).Version=$(VERSION) -X $(APP).LicensePublicKey=$(LICENSE_PUBLIC_KEY)'
LAB_DIR  ?= /var/lib/gateway-lab
DIST     ?= dist
UI_ADDR  ?= 127.0.0.1:3443

# Programs and tests are compiled with the same flags, so that they share the build cache.
export CGO_ENABLED := 0
export GOFLAGS     := $(shell go env GOFLAGS) -trimpath

UI_SOURCES := $(shell find ui/src ui/public ui/scripts -type f 2>/dev/null) ui/index.html ui/package.json ui/vite.config.ts ui/tsconfig.json
PROGRAMS   := gateway-api gateway-helper gateway-waf gateway-upgrade gateway-lab gateway-acl gateway-license
# The programs in the Debian package.
PACKAGED   := gateway-api gateway-helper gateway-waf gateway-upgrade gateway-acl
# The other names of gateway-api, which acts by the name that it is called by.
NAMES      := gateway-scheduler gateway-restore gateway-repair gateway-ctl
# The packages whose tests take longest are started first, so that no core is idle at the end. Those that wait for one of the two places for
# labs alternate with those that compute.
LONGEST    := test/machine test/e2e internal/app test/appliance internal/certificate test/restore internal/kit/db test/vm internal/cluster \
              test/cluster internal/vrrp internal/lab internal/account test/change internal/kit/db/replica test/deb test/waf

say  = @printf '\033[1m==> %s\033[0m\n' "$(1)"
name = @for name in $(NAMES); do ln -sf gateway-api $(1)/$$name; done

.PHONY: help run ready vet-go vet-ui check test test-long long-bookworm long-trixie long-rooms test-busy appliance waf-regression trixie build programs package repository generate lint bench fuzz faults cluster-faults change-faults screenshots clean run-packages test-packages

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

run: run-packages build ## set everything up and run a whole gateway in a box (NODES=2: a cluster of two)
	$(call say,starting the gateway (Ctrl-C stops it and leaves nothing behind))
	@exec bin/gateway-lab up --dir $(LAB_DIR) --ui $(UI_ADDR) --nodes $(or $(NODES),1)

check: ## format, vet, types, and the tests that need no daemon and no other preparation
	@$(MAKE) --no-print-directory -j2 vet-go vet-ui
	$(call say,Go: the tests that need no daemon)
	@go test -vet=off $$(packaging/light.sh)

test: test-packages ready ## set everything up and run the tests
	$(call say,Go: rooms and programs and lab and virtual machine and faults and browser)
	@# The longest start first. More packages than cores run at once, because many wait, for example for one of the two places.
	@packaging/gotest.sh -vet=off -p 5 -parallel 4 -timeout 20m -- $(addprefix ./,$(LONGEST)) ./...

test-long: test-packages ready ## all tests: every page in every size, every kill, every broken upgrade, both Debians, the whole rule set
	@packaging/appliance.sh trixie >/dev/null
	@# If one of them fails, the others still run.
	@$(MAKE) --no-print-directory -k long-bookworm long-trixie long-rooms

# Alone: the package's tests emulate a machine with Debian's kernel, and next to other tests its daemons would exceed systemd's start timeouts.
long-bookworm long-trixie: long-%:
	$(call say,Go: the package on Debian $*)
	@GATEWAY_RELEASE=$* packaging/gotest.sh -vet=off -tags long -timeout 2h -- ./test/appliance

long-rooms:
	$(call say,Go: everything but the package)
	@GATEWAY_WAF_REGRESSION=all packaging/gotest.sh -vet=off -tags long -p 5 -parallel 4 -timeout 2h -- \
		$(addprefix ./,$(filter-out test/appliance,$(LONGEST))) $$(go list -tags long ./... | grep -v /test/appliance$$)

test-busy: ## make test next to an endless loop per core, to find tests that depend on an idle machine (LOOPS=2: two per core)
	@packaging/busy.sh $(or $(LOOPS),1) $(MAKE) test

# The builds and checks that must succeed before the tests. Go and Node.js run in parallel.
ready:
	@$(MAKE) --no-print-directory -j2 vet-go vet-ui ui/dist/index.html
	@$(MAKE) --no-print-directory programs
	@cd ui && npm run --silent size

vet-go:
	$(call say,Go: format and vet)
	@test -z "$$(gofmt -l cmd internal packaging test ui/*.go)" || { echo 'not formatted:'; gofmt -l cmd internal packaging test ui/*.go; exit 1; }
	@go vet -tags vm,long ./...

vet-ui: ui/node_modules/.installed
	$(call say,UI: types and unit tests)
	@cd ui && npm run --silent typecheck && npm run --silent lint && npm run --silent test

appliance: test-packages build ## all tests of the package, installed on a Debian with systemd (RELEASE=trixie, REBOOTS=20)
	@packaging/appliance.sh $(or $(RELEASE),bookworm) >/dev/null
	@GATEWAY_RELEASE=$(RELEASE) GATEWAY_REBOOTS=$(REBOOTS) go test -count=1 -timeout 2h -tags long -v ./test/appliance

waf-regression: test-packages build ## all regression tests of the core rule set, in every mode and at every level, in the engine and through HAProxy
	@GATEWAY_WAF_REGRESSION=all go test -count=1 -timeout 1h -v -run CoreRuleSet\|OperatorsGive ./internal/waf/engine ./test/waf

trixie: ## run the tests, or another target (TARGET=run), in a Debian 13 on this machine
	@packaging/trixie.sh make $(or $(TARGET),test)

build: ui/dist/index.html programs ## build the UI and the programs into bin/

programs: ui/dist/index.html
	$(call say,building the programs into bin/)
	@mkdir -p bin
	@go build $(GO_FLAGS) -o bin/ $(addprefix ./cmd/,$(PROGRAMS))
	$(call name,bin)

package: ui/dist/index.html ## build dist/gateway_VERSION_ARCH.deb (VERSION=another version)
	$(call say,building the Debian package $(VERSION))
	@mkdir -p $(DIST)/build/$(VERSION)/bin
	@# LINKED is a folder with programs that were built before. Go does not rebuild those that are up to date.
	@$(if $(LINKED),cp --reflink=auto $(addprefix $(LINKED)/,$(PACKAGED)) $(DIST)/build/$(VERSION)/bin/)
	@go build $(GO_FLAGS) -o $(DIST)/build/$(VERSION)/bin/ $(addprefix ./cmd/,$(PACKAGED))
	$(call name,$(DIST)/build/$(VERSION)/bin)
	@packaging/deb/build.sh $(DIST) $(VERSION)

repository: ## create a signed apt repository in dist/apt from the packages in dist (SIGNING_KEY=key, REPOSITORY_URL=its address)
	@SIGNING_KEY='$(SIGNING_KEY)' REPOSITORY_URL='$(REPOSITORY_URL)' packaging/deb/repository.sh $(DIST)

ui/node_modules/.installed: ui/package-lock.json
	@packaging/modules.sh

ui/dist/index.html: ui/node_modules/.installed $(UI_SOURCES) api/openapi.json
	$(call say,building the UI)
	@cd ui && npm run --silent build

run-packages:
	@packaging/packages.sh run

test-packages:
	@packaging/packages.sh test
	@packaging/vm.sh >/dev/null
	@packaging/haproxy3.sh >/dev/null
	@for tool in nfpm versitygw gotestsum; do packaging/tool.sh $$tool >/dev/null; done
	@packaging/appliance.sh bookworm >/dev/null

generate: ui/node_modules/.installed ## write api/openapi.json and the UI's client types
	@go run ./cmd/gateway-api -openapi > api/openapi.json.new && mv api/openapi.json.new api/openapi.json
	@cd ui && npm run --silent generate

lint: ui/node_modules/.installed ## check formatting, vet, linters, and that generated files are up to date
	@packaging/lint.sh

bench: test-packages build ## measure everything that the performance goals name
	@go run ./test/bench

fuzz: test-packages ## the fuzz oracles for longer (RAPID=number of texts, RULESETS=of rulesets, MUTATIONS=of files for checkers, FUZZTIME=of each decoder)
	@GATEWAY_MUTATIONS=$(or $(MUTATIONS),10000) go test -count=1 -timeout 60m -v -run 'GuardAdmits' ./internal/kit/host/machine/command
	@GATEWAY_FUZZ_RULESETS=$(or $(RULESETS),2000) go test -count=1 -timeout 60m -v -run 'KernelAgrees' ./internal/firewall
	@GATEWAY_FUZZ_RULESETS=$(or $(RULESETS),2000) go test -count=1 -timeout 60m -run 'Hostile' ./internal/... -rapid.checks=$(or $(RAPID),200000)
	@go test -run '^$$' -fuzz FuzzFrames -fuzztime $(or $(FUZZTIME),1m) ./internal/waf/spoe
	@go test -run '^$$' -fuzz FuzzFields -fuzztime $(or $(FUZZTIME),1m) ./internal/waf/agent
	@go test -run '^$$' -fuzz FuzzJSON -fuzztime $(or $(FUZZTIME),1m) ./internal/waf/mask
	@# Files are long: minimizing each interesting one would take all the time.
	@go test -run '^$$' -fuzz FuzzImport -fuzztime $(or $(FUZZTIME),1m) -fuzzminimizetime 1x ./internal/importer/haproxy
	@go test -run '^$$' -fuzz FuzzImport -fuzztime $(or $(FUZZTIME),1m) -fuzzminimizetime 1x ./internal/importer/opnsense

faults: run-packages build ## kill -9 at every failpoint, and race for single-use secrets, 1,000 times
	@GATEWAY_ROUNDS=$(or $(CYCLES),1000) go test -count=1 -timeout 1h -v -run Rounds ./internal/account
	@GATEWAY_FAULT_CYCLES=$(or $(CYCLES),1000) go test -count=1 -timeout 4h -v ./test/faults

cluster-faults: run-packages build ## kill, cut off, promote and repair two nodes, 1,000 times (RUNS=number of runs, LABS=of those in a lab, SEED=repeats one)
	@GATEWAY_CLUSTER_RUNS=$(or $(RUNS),1000) go test -count=1 -timeout 6h -v -run '^TestProperty$$' ./internal/cluster
	@GATEWAY_CLUSTER_LABS=$(or $(LABS),50) go test -count=1 -timeout 6h -tags long -v -run '^TestFaults$$' ./test/cluster

change-faults: run-packages build ## revert random changes, in memory and on real daemons, and compare the impact of previews with packets (RUNS=1000, LABS=100, CASES=100, SEED=repeats)
	@seed=$(or $(SEED),$(shell date +%s)); echo "SEED=$$seed"; export GATEWAY_SEED=$$seed GATEWAY_IMPACT_SEED=$$seed; \
	GATEWAY_REVERTS=$(or $(RUNS),1000) go test -count=1 -timeout 4h -v -run '^(TestRandomChangeSetsAreReverted|TestRevertsLoseNoLaterEdit)$$' ./internal/kit/resource && \
	GATEWAY_REVERTS=$(or $(RUNS),1000) go test -count=1 -timeout 4h -v -run '^(TestRandomChangesAreTakenBack|TestRevertsLoseNoLaterEditOfAnyKind)$$' ./internal/app && \
	GATEWAY_REVERTS=$(or $(LABS),100) go test -count=1 -timeout 4h -v -run '^TestRandomChangesAreTakenBack$$' ./test/change && \
	GATEWAY_IMPACT_CASES=$(or $(CASES),100) go test -count=1 -timeout 4h -v -run '^(TestMachine|TestProxy)$$/^(Packets|ImpactOnSites)$$/^Impact$$' ./test/machine

screenshots: test-packages build ## take a screenshot of each page in both themes, into .cache/screenshots
	@GATEWAY_PLAYWRIGHT=screenshots go test -count=1 -timeout 20m ./test/e2e

clean: ## remove what was built
	rm -rf bin dist ui/node_modules ui/test-results ui/playwright-report
	find ui/dist -mindepth 1 ! -name .gitkeep -delete
