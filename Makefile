# What people run. Everything builds into target/; nothing outside the checkout is touched but what integration/setup.sh installs (a C linker, runc, crun, busybox-static)
# and, for test-engines and test-cgroup2, setup.sh in integration/engines and integration/guests.
CARGO ?= cargo

.PHONY: help build release demo test test-engines test-cgroup2 test-updates test-takeover chaos crash-points lint bench vectors fuzz fuzz-short setup clean test-packaging test-engines-extra deny runc-suite

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 16

build: ## all programs, for development
	$(CARGO) build --workspace --all-targets

release: ## the four programs and the example plugins, optimized
	$(CARGO) build --release -p nri-container-runtime -p nri-oci-hook -p nrid -p nrictl
	$(CARGO) build --release -p nri-plugin --examples

setup: ## install what demo and tests need and is not there (root, apt)
	integration/setup.sh

demo: ## a real container, adjusted by real plugins, on runc and on crun
	integration/demo/demo.sh

test: setup ## all tests, those with real runc and crun included
	integration/plugins/build.sh
	$(CARGO) build --workspace --all-targets
	$(CARGO) test --workspace --no-fail-fast; passed=$$?; integration/skipped.sh; exit $$passed

test-engines: setup ## SUITES='trixie': containerd, Docker and Podman of these Debian suites (default: three) with the wrapper; see integration/engines
	integration/engines/setup.sh --suites '$(or $(SUITES),bookworm trixie sid)'
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	NRI_ENGINE_SUITES='$(or $(SUITES),bookworm trixie sid)' $(CARGO) test -p nri-integration --test engines --no-fail-fast; \
		passed=$$?; integration/skipped.sh; exit $$passed

test-engines-extra: ## engines that are built from Go modules: BuildKit, nerdctl, CRI-O, cri-dockerd (NAMES='crio …' chooses)
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	nice integration/engines/extra/build.sh
	integration/engines/extra/run.sh $(NAMES)

test-packaging: ## units, Kubernetes manifests, the node installer (shellcheck, systemd-analyze; Go for the manifests)
	$(CARGO) build -p nri-container-runtime -p nri-oci-hook -p nrid -p nrictl
	packaging/test.sh

test-cgroup2: setup ## GUESTS='uml': the tests of enforcement in guests with cgroup v2 (default: uml, systemd, qemu); see integration/guests
	integration/guests/setup.sh
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	$(CARGO) test -p nri-integration --test enforcement --no-run --message-format=json | \
		sed -n '/"name":"enforcement"/s/.*"executable":"\([^"]*\)".*/\1/p' >target/integration/enforcement
	integration/guests/enforcement.sh "$$(cat target/integration/enforcement)" $(GUESTS); \
		passed=$$?; integration/skipped.sh; exit $$passed

runc-suite: ## SOURCE=DIR (a checkout of runc) RUNC=FILE: runc's own integration tests on bare runc and on the wrapper, compared (GUEST=uml: with cgroup v2)
	$(CARGO) build -p nri-container-runtime -p nri-oci-hook -p nrid -p nrictl
	$(CARGO) build -p nri-plugin --example adjust
	$(if $(GUEST),GUEST='$(GUEST)') integration/runc-suite.sh '$(SOURCE)' '$(or $(RUNC),$(shell command -v runc))' $(MODES)

chaos: setup ## SECONDS=600, SEED=N: lives on runc and crun while nrid, wrappers, plugins, connections and the disk fail
	integration/plugins/build.sh target/integration gostub
	$(CARGO) build --workspace --bins --examples
	NRI_CHAOS_SECONDS=$(or $(SECONDS),600) $(if $(SEED),NRI_CHAOS_SEED=$(SEED)) $(CARGO) test -p nri-integration --test chaos -- --nocapture

crash-points: setup ## POINTS='nrid 17': nrid, wrapper and both are killed before each thing that they are about to change, on runc (default: all points)
	integration/plugins/build.sh target/integration gostub
	$(CARGO) build --workspace --bins --examples
	NRI_CRASH_POINTS='$(or $(POINTS),all)' $(CARGO) test -p nri-integration --test crash_points -- --nocapture

test-updates: setup ## UPDATES=10000, CONTAINERS=100: random updates by engine and plugins at once, on runc and crun
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	NRI_UPDATES=$(or $(UPDATES),10000) NRI_CONTAINERS=$(or $(CONTAINERS),100) $(CARGO) test -p nri-integration --test enforcement random -- --nocapture

test-takeover: setup ## BASE=43e9a1b: containers, records and installations of an earlier commit's programs are taken over, and back
	CARGO='$(CARGO)' integration/takeover.sh $(or $(BASE),43e9a1b)

vectors: ## FILES='a.jsonl b.jsonl': run merge vectors
	$(CARGO) run -q -p nri-tests --bin vectors -- $(FILES)

fuzz: ## SECONDS=600: each fuzz target for so long; stable Rust, a C++ compiler
	tests/fuzz/run.sh $(or $(SECONDS),600)

fuzz-short: ## the same, for 20 seconds each
	tests/fuzz/run.sh $(or $(SECONDS),20)

bench: release ## lives of containers through the wrapper and the bare runtime, in turn
	integration/bench.sh

lint: ## format, clippy, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

sanitize: setup ## SHORT=short: our programs built with address sanitizer, and tests of those that have unsafe code; short: without real containers
	CARGO='$(CARGO)' tests/sanitize.sh $(SHORT)

deny: ## dependencies: licences, banned crates, sources, and advisories where RustSec's database can be had (cargo install cargo-deny)
	CARGO='$(CARGO)' tests/deny.sh

clean: ## remove what was built
	$(CARGO) clean
