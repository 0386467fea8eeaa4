# What people run. Everything builds into target/. Nothing outside the checkout is touched but what
# integration/setup.sh installs (a C linker, runc, crun, busybox-static) and, for test-engines and
# test-cgroup2, setup.sh in integration/engines and integration/guests.
CARGO ?= cargo

.PHONY: help build release setup demo test test-one test-engines test-engines-extra \
	test-packaging test-cgroup2 test-updates test-takeover runc-suite chaos crash-points \
	vectors fuzz fuzz-short bench lint sanitize deny clean

PROGRAMS := nri-container-runtime nri-oci-hook nrid nrictl
SUITES_OR_ALL = $(or $(SUITES),bookworm trixie sid)
INTEGRATION_TEST = $(CARGO) test -p nri-integration --test

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 20

build: ## all programs, for development
	$(CARGO) build --workspace --all-targets

release: ## the four programs and the example plugins, optimized
	$(CARGO) build --release $(PROGRAMS:%=-p %)
	$(CARGO) build --release -p nri-plugin --examples

setup: ## install what demo and tests need and is missing (root, apt)
	integration/setup.sh

demo: ## a real container, adjusted by real plugins, on runc and on crun
	integration/demo/demo.sh

test: setup ## all tests, those with real runc and crun included
	integration/plugins/build.sh
	$(CARGO) build --workspace --all-targets
	$(CARGO) test --workspace --no-fail-fast; passed=$$?; \
		integration/skipped.sh; exit $$passed

test-one: ## T=name: the tests with this name, wherever in the workspace they are
	CARGO='$(CARGO)' tests/one.sh '$(T)'

# With SUITES='trixie' only of these Debian suites; see integration/engines.
test-engines: setup ## containerd, Docker, Podman of three Debian suites (SUITES=) with the wrapper
	integration/engines/setup.sh --suites '$(SUITES_OR_ALL)'
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	NRI_ENGINE_SUITES='$(SUITES_OR_ALL)' $(INTEGRATION_TEST) engines --no-fail-fast; \
		passed=$$?; integration/skipped.sh; exit $$passed

# With NAMES='crio ...' only these.
test-engines-extra: ## BuildKit, nerdctl, CRI-O, cri-dockerd, built from Go modules (NAMES=)
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	nice integration/engines/extra/build.sh
	integration/engines/extra/run.sh $(NAMES)

# Needs shellcheck and systemd-analyze, and Go for the manifests.
test-packaging: ## units, Kubernetes manifests, the node installer
	$(CARGO) build $(PROGRAMS:%=-p %)
	packaging/test.sh

# With GUESTS='uml' only in these guests (default: uml, systemd, qemu); see integration/guests.
test-cgroup2: setup ## the tests of enforcement in guests with cgroup v2 (GUESTS=)
	integration/guests/setup.sh
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	$(INTEGRATION_TEST) enforcement --no-run --message-format=json | \
		sed -n '/"name":"enforcement"/s/.*"executable":"\([^"]*\)".*/\1/p' \
		>target/integration/enforcement
	integration/guests/enforcement.sh "$$(cat target/integration/enforcement)" $(GUESTS); \
		passed=$$?; integration/skipped.sh; exit $$passed

# Random updates by engine and plugins at once, on runc and crun.
test-updates: setup ## UPDATES=10000, CONTAINERS=100: random updates, compared with the kernel
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	NRI_UPDATES=$(or $(UPDATES),10000) NRI_CONTAINERS=$(or $(CONTAINERS),100) \
		$(INTEGRATION_TEST) enforcement random -- --nocapture

# Containers, records and installations of the programs of BASE, a commit.
test-takeover: setup ## BASE=43e9a1b: what an earlier version left is taken over, and back
	CARGO='$(CARGO)' integration/takeover.sh $(or $(BASE),43e9a1b)

# SOURCE is a checkout of runc, RUNC the program; with GUEST=uml on cgroup v2.
runc-suite: ## SOURCE=DIR RUNC=FILE: runc's own tests on bare runc and on the wrapper, compared
	$(CARGO) build $(PROGRAMS:%=-p %)
	$(CARGO) build -p nri-plugin --example adjust
	$(if $(GUEST),GUEST='$(GUEST)') integration/runc-suite.sh '$(SOURCE)' \
		'$(or $(RUNC),$(shell command -v runc))' $(MODES)

# nrid, wrappers, plugins, connections and the disk fail while containers live on runc and crun.
chaos: setup ## SECONDS=600, SEED=N: containers while everything else fails at random
	integration/plugins/build.sh target/integration gostub
	$(CARGO) build --workspace --bins --examples
	NRI_CHAOS_SECONDS=$(or $(SECONDS),600) $(if $(SEED),NRI_CHAOS_SEED=$(SEED)) \
		$(INTEGRATION_TEST) chaos -- --nocapture

# With POINTS='nrid 17' only this one, or those of a group.
crash-points: setup ## nrid and wrapper are killed before each thing they would change (POINTS=)
	integration/plugins/build.sh target/integration gostub
	$(CARGO) build --workspace --bins --examples
	NRI_CRASH_POINTS='$(or $(POINTS),all)' $(INTEGRATION_TEST) crash_points -- --nocapture

vectors: ## FILES='a.jsonl b.jsonl': run merge vectors
	$(CARGO) run -q -p nri-tests --bin vectors -- $(FILES)

fuzz: ## SECONDS=600: each fuzz target for so long; stable Rust, a C++ compiler
	tests/fuzz/run.sh $(or $(SECONDS),600)

fuzz-short: ## the same, for 20 seconds each
	tests/fuzz/run.sh $(or $(SECONDS),20)

bench: release ## life cycles of containers through the wrapper and the bare runtime, in turn
	integration/bench.sh

lint: ## format, clippy, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

# With SHORT=short without real containers.
sanitize: setup ## programs with unsafe code and their tests, with address sanitizer (SHORT=)
	CARGO='$(CARGO)' tests/sanitize.sh $(SHORT)

# Needs cargo-deny (cargo install cargo-deny); advisories where RustSec's database can be had.
deny: ## dependencies: licences, banned crates, sources, advisories
	CARGO='$(CARGO)' tests/deny.sh

clean: ## remove what was built
	$(CARGO) clean
