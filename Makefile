# `make check` is what CI runs. Needs Python 3.11 or newer, make and git.

PYTHON ?= python3
BIN := .venv/bin
GEN := .venv-gen/bin
SCENARIO ?= shim
JOBS ?= 1
GO := $(shell command -v go 2>/dev/null)
NPM := $(shell command -v npm 2>/dev/null)
CARGO := $(shell command -v cargo 2>/dev/null)
BUF := npx --no-install buf
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.9.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.0
HELM := $(BIN)/helm
COMPOSE := $(BIN)/podman-compose
CHECK := build/tools/check
CHART := deploy/helm/licorne
DASHBOARD := $(CHART)/files/licorne.json
SERVE_FLAGS ?= --listen 127.0.0.1:7070 --http 127.0.0.1:9080

# The tests start many processes, each of which would compile all its imports without cached bytecode.
unexport PYTHONDONTWRITEBYTECODE

# The folder in which cargo caches built dependencies.
RUST_TARGET ?= $(CURDIR)/build/rust

# A lock has the hashes of every file of a version, for all platforms, but no source from which to download them.
LOCK = .venv-new/bin/uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make constraints' --constraint constraints.txt
# The requirements of the build hook, as in pyproject.toml.
COMPILING = 'mypy[mypyc]' types-PyYAML types-protobuf
SBOM := dist/licorne.cdx.json
ALERTS := dist/alerts.yml
# The image is built from BASE, which must be pinned: make image BASE=python:3.11-slim@sha256:...
# ENGINE is docker, podman or buildah: by default, whichever is installed. WHEELS is a folder with the compiled server,
# such as dist, for the platform and the Python of the base: the build compiles it otherwise.
BASE ?=
WHEELS ?=
IMAGE ?= licorne
ENGINE ?=
CLUSTER ?= kind
APP_VERSION = $(shell sed -n 's/^appVersion: "\(.*\)"/\1/p' $(CHART)/Chart.yaml)

# The requirements of the server and the client, and those of development.
RUNTIME := .venv/.runtime
INSTALLED := .venv/.installed
COLLECTED := .venv/.collected
BUILT := build/venv
BOTH_FORMS := tests/test_forms.py::test_both_forms_make_the_same_decisions
# uv does not read pip's settings, so it is given pip's index, from the environment or a file.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
INSTALL_INTO = index=$$($(BIN)/python -m pip config get global.index-url 2> /dev/null) && \
  export UV_DEFAULT_INDEX=$${UV_DEFAULT_INDEX:-$$index}; $(BIN)/uv pip install --quiet --python $(1)/bin/python
PIP_INSTALL = $(call INSTALL_INTO,.venv)
GENERATOR := .venv-gen/.installed
# Print a line before and after each wheel, because some take minutes.
BUILD = @echo 'dist: $(1) ...'; $(2) && echo 'dist: $(1) is done'

.DEFAULT_GOAL := help
.PHONY: help gate native pure dist test-dist test-native test-compiled test-image test-kube alerts chart image image-load image-base sbom install demo run kube bench test test-workshop smoke transport test-transport lint-rust test-browser test-deploy lint-deploy manifests test-go lint-go test-shim test-slow test-bench soak mutants rows programs check lint types imports gen gen-check lint-proto proto-release examples example-go example-java example-typescript example-rust example-cpp picture decisions reference docs format constraints clean

help:
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(INSTALLED) ## make .venv with the server, the client and the tools

$(RUNTIME): pyproject.toml clients/python/pyproject.toml clients/cli/pyproject.toml tools/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; say make PYTHON=...")'
	@echo 'Setting up .venv with the server and the client: about half a minute, the first time only ...' >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@$(PIP_INSTALL) -c constraints.txt -e clients/python -e clients/cli -e . -e tools
	@touch $@

$(INSTALLED): $(RUNTIME)
	@echo 'Adding the tools for tests and development to .venv: about half a minute, the first time only ...' >&2
	@$(PIP_INSTALL) -c constraints.txt --group dev
	@touch $@

$(GENERATOR): proto/requirements.txt | $(RUNTIME)
	@test -x $(GEN)/python || $(PYTHON) -m venv .venv-gen
	@$(BIN)/uv pip install --quiet --python $(GEN)/python -r proto/requirements.txt
	@touch $@

# The processes that share the tests start together, and each would compile all modules of the tests, so the first time
# they are compiled before. Errors in collection are reported by the tests.
$(COLLECTED): $(INSTALLED)
	@$(BIN)/pytest --collect-only -q > /dev/null 2>&1 || true
	@touch $@

demo: $(RUNTIME) ## a real server and fake RMs, seen from the terminal
	@$(BIN)/licorne demo

run: $(RUNTIME) ## a server on loopback
	@$(BIN)/licorne serve $(SERVE_FLAGS)

bench: $(RUNTIME) ## one benchmark: make bench SCENARIO=... NODES=... PODS=...
	@$(BIN)/licorne bench $(SCENARIO) $(if $(NODES),--nodes $(NODES)) $(if $(PODS),--pods $(PODS))

# Tests of benchmarks, gates, scripts, the chart and the composition. All tests are collected, because one of them
# checks the whole collection.
WORKSHOP := $(addprefix tests/,tools deploy kube soak)

test: install | $(COLLECTED) ## the tests, but for slow ones and those of test-workshop: four minutes on two processors, with Python, make and git alone
	@$(BIN)/pytest -n auto --dist worksteal $(WORKSHOP:%=--deselect=%)

test-workshop: install | $(COLLECTED) ## the tests of benches, gates, scripts, chart and composition, but for slow ones
	@$(BIN)/pytest -n auto --dist worksteal $(WORKSHOP)

# The tests that have no other target.
WITH := not bench and not promtool and not helm and not wheels and not image and not kube

# The tests that also run on the built packages: of the core and the wire, without uncompiled modules.
PLAIN := $(addprefix tests/core/,config whatif)
WIRE := $(addprefix tests/,attacks client e2e $(addprefix server/,assembly members rms security services transport wire))
BUILT_FILES := $(filter-out tests/client,$(WIRE)) tests/core tests/standard tests/scenarios tests/properties

# Of the tests that also run on the built packages, only those that need the sources run here, so that slow tests run only
# once. The slow tests of benchmarks are in test-bench.
test-slow: install | $(COLLECTED) ## the tests that take more than half a second of CPU each, but for those that test-compiled has
	@$(BIN)/pytest -m 'slow and (pure or not worlds) and not transport and $(WITH)' --timeout=1200 -o faulthandler_timeout=1500 \
	  -n auto --dist worksteal $(PLAIN) $$(grep -rl 'mark\.pure' $(BUILT_FILES) --include='test_*.py') \
	  $$(grep -rl 'mark\.slow' tests --include='test_*.py' | grep -vE "^($$(echo $(BUILT_FILES) tests/tools | tr ' ' '|'))/")

# The tests that are most likely to detect a defect of any change.
SMOKE := tests/test_house.py tests/mutants tests/scenarios $(addprefix tests/core/,model scheduling) tests/standard \
  $(addprefix tests/properties/test_,decisions.py isolation.py) tests/client tests/cli/test_recorded.py \
  tests/server/http/test_recorded.py tests/e2e/test_published_interface.py

smoke: install ## a minute or two of tests: rules, scenarios, some worlds, the client, recordings
	@$(BIN)/pytest -n auto --dist worksteal --worlds 60 $(SMOKE)

test-bench: install ## the tests that run benchmarks, and the slow ones of the tools; not among those of check
	@$(BIN)/pytest -m 'bench or slow' tests/tools

# promtool is in Debian's package prometheus.
test-deploy: install ## alert rules, dashboard and metrics; needs promtool
	@command -v promtool > /dev/null || { echo 'test-deploy: promtool is not installed; it is in the package prometheus' >&2; exit 1; }
	@$(BIN)/pytest -m promtool tests/deploy

lint-deploy: install $(HELM) $(CHECK) $(DASHBOARD) ## the chart, the manifests and the composition, by Helm and by Kubernetes' types; needs Go
	@unformatted=$$(gofmt -l deploy/check); test -z "$$unformatted" || { echo "lint-deploy: gofmt would change $$unformatted" >&2; exit 1; }
	@cd deploy/check && go vet ./...
	@LICORNE_HELM=$(CURDIR)/$(HELM) LICORNE_CHECK=$(CURDIR)/$(CHECK) $(BIN)/pytest -m helm tests/deploy

# Links in messages of alerts need an absolute address, for which the chart has a value.
alerts: ## into dist/: the alert rules with links to where the runbooks are: make alerts RUNBOOKS=https://...
	@case '$(RUNBOOKS)' in http://?*|https://?*) ;; *) echo 'alerts: RUNBOOKS must be the address of the page, such as https://wiki.example/runbooks' >&2; exit 1;; esac
	@mkdir -p $(dir $(ALERTS))
	@sed 's|runbook_url: docs/runbooks.md|runbook_url: $(RUNBOOKS)|' deploy/prometheus/alerts.yml > $(ALERTS)
	@echo $(ALERTS)

# The base is made from Debian's packages, unless BASE names one. Networks of podman need netavark, aardvark-dns and
# iptables. The first test builds the image, which takes minutes: only the programs that it starts have a time limit.
test-image: install $(COMPOSE) ## the image and the composition, built and run by podman; needs podman and mmdebstrap
	@BASE='$(BASE)' WHEELS='$(WHEELS)' $(BIN)/pytest -m image -o faulthandler_timeout=0 tests/deploy/test_image.py

# The programs are built before the tests, which have a time limit; the first build takes minutes.
test-kube: install $(HELM) $(DASHBOARD) ## Licorne, the shim and the chart on a real control plane of Kubernetes; needs Go and etcd
	@test -n "$(GO)" || { echo 'test-kube: Go is not installed' >&2; exit 1; }
	@command -v etcd > /dev/null || { echo 'test-kube: etcd is not installed; Debian has it in the package etcd-server' >&2; exit 1; }
	@$(BIN)/python -c "from licorne_tools.kube.programs import SOURCES, built; built(list(SOURCES))"
	@LICORNE_HELM=$(CURDIR)/$(HELM) $(BIN)/pytest -m kube --timeout=600 -o faulthandler_timeout=0 tests/kube \
	  $(wildcard tests/server/store/coordination/test_store_contract*.py) tests/server/store/documents/test_contract.py

chart: $(HELM) $(DASHBOARD) ## into dist/: the chart as one file, with the dashboard drawn
	@$(HELM) package $(CHART) --destination dist

# The dashboard for Grafana. Only the chart and the composition need it as a file.
$(DASHBOARD): deploy/grafana/dashboard.py deploy/grafana/panels.yml | $(RUNTIME)
	@$(BIN)/python $< $@

manifests: $(HELM) ## write deploy/kubernetes/licorne.yaml from the chart
	@$(HELM) template licorne $(CHART) --namespace licorne --set image.repository=licorne > deploy/kubernetes/licorne.yaml

$(HELM) $(COMPOSE): $(RUNTIME)
	@$(PIP_INSTALL) -c constraints.txt --group deploy
	@touch $@

$(CHECK): $(wildcard deploy/check/*.go) deploy/check/go.mod deploy/check/go.sum
	@test -n "$(GO)" || { echo 'no Go toolchain is installed' >&2; exit 1; }
	@cd deploy/check && go build -o $(CURDIR)/$@ .

# The programs of Kubernetes are built the first time, which takes minutes, and then cached.
kube: install ## a Kubernetes on this machine with Licorne on it, for kubectl: make kube NODES=100; needs Go and etcd
	@$(BIN)/python -m licorne_tools.kube.command $(if $(NODES),--nodes $(NODES)) $(if $(SCHEDULER),--scheduler $(SCHEDULER))

# The browser is that of the system, such as Debian's package chromium. Without one the tests fail.
test-browser: install ## the page in a real browser; needs chromium
	@command -v chromium >/dev/null || { echo 'test-browser: chromium is not installed; Debian has it as a package' >&2; exit 1; }
	@$(BIN)/pytest tests/browser

gate: install ## does an allocation cost more CPU than with the commit before?
	@$(BIN)/python -m licorne_tools.bench.gate

native: install ## compile the hot modules in place; needs a C compiler
	@$(BIN)/python native.py in-place

pure: install ## take away what `make native` has compiled
	@$(BIN)/python native.py pure

# The environment of each build is made from the requirements in pyproject.toml. pip accepts only one wheel of a version
# on a command line, so the pure wheel of the server, for other platforms or Pythons, is in a separate folder.
dist: install ## into dist/: wheels and sources of client, command line and server, and the server compiled for this machine
	@rm -rf dist
	$(call BUILD,licorne-client,$(BIN)/uv build --quiet --out-dir dist clients/python)
	$(call BUILD,licorne-cli,$(BIN)/uv build --quiet --out-dir dist clients/cli)
	$(call BUILD,licorne-server as Python alone,$(BIN)/uv build --quiet --out-dir dist/pure .)
	@mv dist/pure/*.tar.gz dist
	$(call BUILD,licorne-server compiled by mypyc,HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/uv build --quiet --wheel --out-dir dist .)
	$(if $(CARGO),$(call BUILD,licorne-transport by cargo,$(MAKE) --no-print-directory transport),@echo 'dist: licorne-transport is left out, as there is no cargo: a server without it is no server for strangers')
	@ls dist/*.whl dist/pure/*.whl dist/*.tar.gz

# One wheel fits all versions of Python.
transport: install ## into dist/: the wheel with HTTP/2 for the server, compiled for this machine; needs cargo
	@CARGO_TARGET_DIR='$(RUST_TARGET)' $(BIN)/uv build --quiet --wheel --out-dir dist transport

# The tests of the wire also run with the wheel of `make transport`, in addition to its own tests.
test-transport: install ## test the server from its sources over the transport that dist/ has, and take it away
	@$(PIP_INSTALL) --no-index --no-deps --force-reinstall dist/licorne_transport-*.whl
	@$(BIN)/pytest -m '$(WITH)' -n auto --dist worksteal $(WIRE); \
	  failed=$$?; $(BIN)/python -m pip uninstall --quiet --yes licorne-transport; exit $$failed

lint-rust: ## the compiled transport: format and lint; needs cargo
	@test -n "$(CARGO)" || { echo 'lint-rust: no cargo is installed' >&2; exit 1; }
	@cd transport && cargo fmt --check && CARGO_TARGET_DIR='$(RUST_TARGET)' cargo clippy --quiet --locked -- -D warnings

# Nothing of the checkout is used: the wheels come from dist/, and commands run from elsewhere.
test-dist: dist ## does each wheel work in a fresh environment?
	@$(BIN)/pytest -m wheels tests/deploy/test_wheels.py

test-native: test-dist ## test-dist and test-compiled
	@$(MAKE) --no-print-directory test-compiled

# The wheels of dist/ are tested in a separate environment, with only tests and tools from the checkout. So the sources
# can be tested at the same time. Tests of plans are left out: they need deep copies, which compiled objects do not support,
# while a server forks its process. So are tests of parsing configurations, whose modules are not compiled. The
# random worlds differ from those for the sources, because the decisions are the same.
test-compiled: install | $(COLLECTED) ## test what dist/ has, the compiled server over the compiled transport: the core, the wire, many worlds
	@rm -rf $(BUILT) && $(BIN)/uv venv --quiet --python $(BIN)/python $(BUILT)
	@$(call INSTALL_INTO,$(BUILT)) --no-sources -c constraints.txt dist/licorne_cl*.whl dist/licorne_server-*-cp*.whl \
	  $$(ls dist/licorne_transport-*.whl 2> /dev/null) -e tools --group dev
	@$(BUILT)/bin/licorne version --client | grep ', compiled,'
	@$(BUILT)/bin/pytest -m '$(WITH) and (slow or not worlds)' -n auto --dist worksteal \
	  --timeout=1200 -o faulthandler_timeout=1500 $(PLAIN:%=--ignore=%) $(BUILT_FILES) $(BOTH_FORMS)

soak: install ## kill servers and RMs 120 times, shake members 100 times, then 500,000 allocations with flat memory; half an hour
	@$(BIN)/python tests/soak

mutants: install ## do the tests notice planted defects? make mutants ONLY=name JOBS=2 TABLE=file
	@$(BIN)/python tests/mutants $(ONLY) --jobs $(JOBS) $(if $(TABLE),--table $(TABLE))

rows: install ## which test covers which acceptance row
	@$(BIN)/pytest --collect-only -q --rows-table=rows.md > /dev/null && echo rows.md

# Without -count=1 Go would use cached results, because it cannot detect a change of the server.
test-go: install ## the Go client: format, lint and tests; needs Go
	@test -n "$(GO)" || { echo 'test-go: no Go toolchain is installed' >&2; exit 1; }
	@unformatted=$$(cd clients/go && gofmt -l .); test -z "$$unformatted" || \
	  { echo "test-go: gofmt would change $$unformatted" >&2; exit 1; }
	@cd clients/go && go vet ./... && go run $(STATICCHECK) ./...
	@cd clients/go && LICORNE_BIN=$(CURDIR)/$(BIN)/licorne go test -race -count=1 -vet=off ./...
	@$(MAKE) --no-print-directory test-shim

# Many more linters than in test-go, which take minutes to build the first time.
lint-go: ## golangci-lint on the Go client; needs Go
	@test -n "$(GO)" || { echo 'lint-go: no Go toolchain is installed' >&2; exit 1; }
	@cd clients/go && go run $(GOLANGCI) run ./... && cd shimtest && go run $(GOLANGCI) run -c ../.golangci.yml ./...

# Vet is a part of lint-go: the first time it takes most of a minute, because it examines all of Kubernetes.
test-shim: install ## the Kubernetes shim on Licorne; needs Go, and minutes the first time
	@test -n "$(GO)" || { echo 'test-shim: no Go toolchain is installed' >&2; exit 1; }
	@cd clients/go/shimtest && LICORNE_BIN=$(CURDIR)/$(BIN)/licorne go test -count=1 -vet=off ./...

programs: install ## are the programs there that tests need beside Python, make and git?
	@$(BIN)/python tests/programs.py

# The databases are on the network: a missing one is named and counted, and is an error only with STRICT.
audit: install ## known vulnerabilities of the locked packages and crates: make audit STRICT=strict fails for what cannot be looked up
	@$(BIN)/python .ci/audit.py $(STRICT)

check: programs lint types imports audit gen-check $(if $(NPM),lint-proto) test test-workshop test-slow test-browser test-deploy $(if $(GO),lint-deploy test-go test-kube) examples $(if $(CARGO),lint-rust) test-native gate ## all that CI runs

lint: install ## style, banned imports, format, and code that only tests use
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python tests/unused

types: install ## strict typing
	@$(BIN)/mypy

imports: install ## the floors of the house
	@$(BIN)/lint-imports --no-logo

gen: $(GENERATOR) ## rewrite the wire code from proto/
	@$(GEN)/python proto/generate.py

gen-check: $(GENERATOR) ## is the wire code up to date?
	@$(GEN)/python proto/generate.py --check

# Each example is generated, compiled, and gets a thousand allocations from a real server. Examples without a
# toolchain on this machine are named and left out.
EXAMPLES := clients/examples
PLAY := $(BIN)/python $(EXAMPLES)/check.py

examples: install ## the RMs of clients/examples whose toolchain is here, against a real server
	@for one in go:go java:mvn typescript:npm rust:cargo; do \
	  language=$${one%:*} tool=$${one#*:}; \
	  if command -v $$tool > /dev/null; then $(MAKE) --no-print-directory example-$$language || exit 1; \
	  else echo "examples: $$language is left out, as there is no $$tool"; fi; done
	@if command -v protoc > /dev/null && command -v grpc_cpp_plugin > /dev/null && command -v g++ > /dev/null \
	  && pkg-config --exists grpc++ protobuf 2> /dev/null; then \
	  $(MAKE) --no-print-directory example-cpp; \
	else echo 'examples: cpp is left out, as it needs g++, protoc, grpc_cpp_plugin and pkg-config grpc++'; fi

example-go: install ## the example in Go
	@echo 'building $@: up to some minutes the first time ...'
	@cd $(EXAMPLES)/go && go vet ./... && go build -o $(CURDIR)/build/example-go .
	@$(PLAY) go build/example-go

example-java: install ## the example in Java; needs Maven
	@echo 'building $@: up to some minutes the first time ...'
	@cd $(EXAMPLES)/java && mvn --quiet --batch-mode package
	@$(PLAY) java java -cp '$(EXAMPLES)/java/target/example.jar:$(EXAMPLES)/java/target/dependency/*' dev.licorne.example.Main

example-typescript: install ## the example in TypeScript; needs npm
	@echo 'building $@: up to some minutes the first time ...'
	@cd $(EXAMPLES)/typescript && npm install --no-save --ignore-scripts --silent --no-audit --no-fund && npm run --silent build
	@$(PLAY) typescript node $(EXAMPLES)/typescript/dist/main.js

example-rust: install ## the example in Rust; needs cargo
	@echo 'building $@: up to some minutes the first time ...'
	@cd $(EXAMPLES)/rust && CARGO_PROFILE_DEV_DEBUG=0 cargo build --quiet --locked --target-dir '$(RUST_TARGET)'
	@$(PLAY) rust '$(RUST_TARGET)/debug/licorne-example'

CPP := build/example-cpp

example-cpp: install ## the example in C++, over si.v1 alone; needs g++, protoc and gRPC's package for C++
	@echo 'building $@: up to some minutes the first time ...'
	@mkdir -p $(CPP)
	@protoc -I proto --cpp_out=$(CPP) --grpc_out=$(CPP) --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) \
	  proto/licorne/si/v1/si.proto
	@g++ -std=c++17 -Wall -Werror -I $(CPP) -o $(CPP)/example $(EXAMPLES)/cpp/main.cpp $(CPP)/licorne/si/v1/*.cc \
	  $$(pkg-config --cflags --libs grpc++ protobuf)
	@$(PLAY) --wire si cpp $(CPP)/example

# Compares with the last release, whose clients must not break.
lint-proto: proto/node_modules/.installed ## do the .proto files keep buf's rules, and what was released? needs npm
	@cd proto && $(BUF) lint && $(BUF) breaking --against released.binpb
	@echo 'lint-proto: 2 passed, 0 failed'

proto-release: proto/node_modules/.installed ## note what the .proto files say as released; needs npm
	@cd proto && $(BUF) build --exclude-source-info -o released.binpb

proto/node_modules/.installed: proto/package.json proto/package-lock.json
	@test -n "$(NPM)" || { echo 'no npm is installed' >&2; exit 1; }
	@cd proto && npm install --no-save --ignore-scripts --silent --no-audit --no-fund
	@touch $@

reference: install ## write the references of configurations and settings anew
	@$(BIN)/python docs/reference.py

picture: install ## draw the pictures of docs/ anew, and plan its recipes
	@$(BIN)/python docs/picture.py
	@$(BIN)/python docs/fair_share.py
	@$(BIN)/python docs/backfill.py
	@$(BIN)/python docs/elastic.py
	@$(BIN)/python docs/architecture.py
	@$(BIN)/python docs/recipes.py
	@$(BIN)/python docs/racks.py
	@$(BIN)/python docs/terminal.py
	@$(BIN)/python docs/replay.py

# Dead links and anchors are errors. The variable silences a notice about the successor of MkDocs.
docs: install ## into build/site: the pages as a site that needs no other host
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo build/site/index.html

decisions: install ## measure the policies on made loads, and write the tables of docs/policies.md; some minutes. TRACES=DIR compares SWF files with EASY
	@$(BIN)/python docs/decisions.py $(if $(TRACES),--traces $(TRACES)) $(if $(LIMIT),--jobs $(LIMIT))

format: install ## put the code into its format
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

constraints: ## take the newest versions that fit, and write them down
	@$(PYTHON) -m venv .venv-new
	@.venv-new/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@.venv-new/bin/python -m pip install --quiet ./clients/python ./clients/cli . --group dev --group deploy
	@{ echo '# The versions that the tests ran with. Rewritten by `make constraints`.'; \
	  .venv-new/bin/python -m pip freeze --all --exclude pip --exclude licorne-cli --exclude licorne-client --exclude licorne-server; } > constraints.txt
	@mkdir -p constraints
	@$(LOCK) --no-emit-package licorne-cli --no-emit-package licorne-client --extra kubernetes --extra otel pyproject.toml -o constraints/runtime.txt
	@printf '%s\n' hatchling $(COMPILING) | $(LOCK) - -o constraints/build.txt
	@rm -rf .venv-new

image: ## the image: make image BASE=python:3.11-slim@sha256:...; by docker, podman or buildah
	@PYTHON=$(PYTHON) CARGO='$(CARGO)' WHEELS='$(WHEELS)' deploy/image/build.sh '$(BASE)' '$(IMAGE)' $(ENGINE)

image-base: ## localhost/licorne-base, of Debian's packages, where no base can be pulled; needs mmdebstrap
	@deploy/image/base.sh localhost/licorne-base $(ENGINE)

# The tag is the version of the chart. Nodes of kind have their own images, which are loaded from docker.
image-load: ## the image into the nodes of a kind cluster: make image-load BASE=... CLUSTER=kind
	@command -v kind > /dev/null || { echo 'image-load: kind is not installed. For a cluster of another kind push the image to a registry, and set image.repository' >&2; exit 1; }
	@$(MAKE) --no-print-directory image IMAGE=licorne:$(APP_VERSION) ENGINE=docker
	@kind load docker-image licorne:$(APP_VERSION) --name '$(CLUSTER)'
	@echo 'helm install licorne $(CHART) --set image.repository=licorne'

sbom: install ## what the image has inside, as CycloneDX, into dist/
	@mkdir -p dist
	@$(BIN)/cyclonedx-py requirements --output-reproducible --output-format JSON --output-file $(SBOM) constraints/runtime.txt
	@echo $(SBOM)

clean: ## remove the environments and caches
	@find core server -name '*.so' -delete
	@rm -rf build .venv .venv-gen .venv-new dist .mypy_cache .ruff_cache core/.ruff_cache .pytest_cache \
	  .import_linter_cache .hypothesis
