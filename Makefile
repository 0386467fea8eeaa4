# Targets for users and developers; `make help` lists them. All outputs are below target/. Outside
# of the checkout, integration/setup.sh installs packages (a C linker, runc, crun, busybox-static),
# and so does setup.sh of integration/engines for test-engines and of integration/guests for
# test-cgroup2; test-engines-guest, test-rootless and test-policies need both.
CARGO ?= cargo

.PHONY: help build clean release libnri setup demo quick test test-one test-engines \
	test-engines-extra test-hosts pictures test-installed test-packaging test-kubernetes \
	conformance test-cgroup2 test-engines-guest test-rootless test-updates test-takeover \
	runc-suite chaos crash-points vectors topology-histories test-topology check-upstream \
	compare-plugins compare-placement fuzz fuzz-short bench isolation instructions test-size \
	soak lint test-crates sanitize deny packages test-packages test-reproducible test-policies \
	test-aarch64

# What runs WebAssembly plugins; `make release WASM=` leaves it out.
WASM ?= nri-wasm-host
PLUGINS := $(patsubst src/plugins/%/Cargo.toml,nri-%,$(wildcard src/plugins/*/Cargo.toml))
SUITES_OR_ALL = $(or $(SUITES),bookworm trixie sid)
# A test of the workspace by its name. A selection of packages would give dependencies other
# features than `make build`, and compile them again.
TEST = $(CARGO) test --workspace --test

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 20

build: ## all programs, for development
	$(CARGO) build --workspace --all-targets

release: ## the programs, the shipped plugins and the example plugins, optimized (WASM=)
	$(CARGO) build --release -p nrid -p nrictl $(WASM:%=-p %)
	CARGO='$(CARGO)' shim/build.sh "$${CARGO_TARGET_DIR:-target}/release"
	$(CARGO) build --release $(PLUGINS:%=-p %)
	$(CARGO) build --release -p nri-plugin --examples

# Needs nothing but Rust and a C linker; see docs/reference/embedding.md. DESTDIR is for packages.
libnri: ## PREFIX=/usr/local: build and install libnri, nri.h and nri.pc, for engines in C
	$(CARGO) build --release -p nri-capi
	src/capi/install.sh "$${CARGO_TARGET_DIR:-target}/release" '$(or $(PREFIX),/usr/local)'

setup: ## install the missing programs that the demo and the tests need (root, apt)
	integration/setup.sh

demo: ## run real containers that real plugins adjust, on runc and on crun
	integration/demo/demo.sh

test: setup ## all tests, including those with real runc and crun
	integration/plugins/build.sh
	integration/plugins/wasm-rust-setup.sh
	integration/plugins/wasm-rust.sh
	$(CARGO) build --workspace --all-targets
	integration/run-tests.sh $(CARGO) test --workspace --no-fail-fast

# For each step: a minute after `make build`. Runs the tests that are in the sources.
quick: ## format, the rules of the repository, unit tests; needs neither root nor network
	$(CARGO) fmt --all --check
	$(CARGO) test -q --offline --workspace --lib --bins --test tidy

test-one: ## T=name: all tests of the workspace with this name
	CARGO='$(CARGO)' tests/one.sh '$(T)'

# The tests whose results a running nrid, its configuration or installed programs could change. Each
# kind of test has one: the wrapper, nrid, nrictl, containers.
test-installed: setup ## tests on what looks like a machine where the product is installed (root)
	$(CARGO) build --workspace --bins --examples
	tests/installed.sh target/debug $(TEST) wrapper unreachable::
	tests/installed.sh target/debug $(TEST) operate removed_files::
	tests/installed.sh target/debug $(TEST) without_nrid
	tests/installed.sh target/debug $(TEST) real broken::nrid_is_missing

# SUITES='trixie' limits the tests to the engines of these Debian suites; see integration/engines.
test-engines: setup ## containerd, Docker, Podman of three Debian suites (SUITES=)
	integration/engines/setup.sh --suites '$(SUITES_OR_ALL)'
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	NRI_ENGINE_SUITES='$(SUITES_OR_ALL)' \
		integration/run-tests.sh $(TEST) engines --no-fail-fast

# SUITES='trixie' limits the tests to these engines, T=name to the tests with this name.
test-engines-guest: setup ## as test-engines, in a guest with cgroup v2 (SUITES=, T=)
	integration/guests/setup.sh uml
	integration/engines/setup.sh --suites '$(or $(SUITES),trixie sid)'
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	$(TEST) engines --no-run
	integration/run-tests.sh integration/guests/engines.sh '$(or $(SUITES),trixie sid)' $(T)

# SOURCE is a checkout of containers/nri-plugins. The results are in docs/reference/nri-plugins.md.
test-policies: setup ## SOURCE=DIR: policies of nri-plugins on Docker and Podman (SUITES=)
	integration/engines/setup.sh --suites '$(SUITES_OR_ALL)'
	integration/guests/setup.sh uml
	integration/plugins/policies.sh '$(SOURCE)'
	$(CARGO) build --workspace --bins --examples
	NRI_ENGINE_SUITES='$(SUITES_OR_ALL)' \
		NRI_TEST_POLICIES='$(CURDIR)/target/integration/policies' \
		$(TEST) engines policies:: -- --ignored --test-threads 1
	NRI_TEST_POLICIES='$(CURDIR)/target/integration/policies' \
		integration/guests/engines.sh '$(or $(SUITES),trixie sid)' memory_qos

# HOSTS='docker28 podman' limits it to these hosts, see integration/quick-start.sh.
# FROM=target/debug installs these programs in place of a release build. PACKAGE=DEB follows the
# quick starts of the shipped plugins with this package.
test-hosts: setup ## HOSTS=, FROM=DIR: README, quick starts, tutorials, as written, on five hosts
	integration/engines/setup.sh \
		--suites '$(if $(filter docker28% upgrade,$(or $(HOSTS),upgrade)),sid) trixie'
	$(if $(FROM),$(CARGO) build --workspace --bins --examples)
	integration/quick-start.sh $(HOSTS:%=--host %) \
		$(if $(PACKAGE),--package $(PACKAGE),$(if $(FROM),--programs $(FROM)))

# As test-hosts; draws three containers of Docker that three plugins adjust.
pictures: setup ## make the pictures of docs/pictures
	integration/engines/setup.sh --suites trixie
	$(CARGO) build --workspace --bins --examples
	PICTURE='$(CURDIR)/target/debug/examples/picture' PICTURES='$(CURDIR)/docs/pictures' \
		integration/quick-start.sh --host docker26 --programs target/debug \
		--then integration/pictures/scenario.sh docker

# NAMES='crio ...' limits the tests to these engines. Their containerd, dockerd and conmon are those
# of Debian 12, from integration/engines/setup.sh; docker29 needs the newer ones of sid.
test-engines-extra: setup ## BuildKit, nerdctl, CRI-O, cri-dockerd, Docker 29 of Go modules (NAMES=)
	integration/engines/setup.sh --suites 'bookworm sid'
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	nice integration/engines/extra/build.sh
	PATH="$$PATH:$${NRI_ENGINES:-/var/tmp/nri-engines}/bin/bookworm" \
		DOCKER29="$${NRI_ENGINES:-/var/tmp/nri-engines}/bin/sid" \
		integration/engines/extra/run.sh $(NAMES)

# TARGETS='runc crun' limits it to these, and writes no document. Engines of Go modules are included
# if integration/engines/extra/build.sh has built them; moby-29 needs the engines of sid.
conformance: setup ## TARGETS=: run nri-conformance at each runtime, write its document
	$(if $(filter-out runc crun,$(or $(TARGETS),all)), \
		integration/engines/setup.sh --suites 'trixie sid')
	$(CARGO) build --workspace --bins --examples
	integration/conformance/run.sh \
		$(if $(TARGETS),$(TARGETS),--document docs/reference/conformance.md)

# Not in CI: builds Kubernetes and Helm from Go modules, at first for 20 minutes. The test takes 5.
test-kubernetes: setup ## the DaemonSet on a real API server, kubelet and containerd (long build)
	integration/engines/setup.sh --suites trixie
	integration/kubernetes/setup.sh
	integration/plugins/build.sh $${CARGO_TARGET_DIR:-target}/integration gostub
	$(CARGO) build --workspace --bins --examples
	integration/kubernetes/run.sh

# Needs shellcheck and systemd-analyze, and Go for the manifests.
test-packaging: ## units, Kubernetes manifests, the node installer
	$(CARGO) build --workspace --bins --examples
	packaging/test.sh

# Needs dpkg-dev and git. The tools are installed below target/, see packaging/packages/tools.sh.
packages: ## .deb and .rpm, bills of materials and checksums in target/packages
	CARGO='$(CARGO)' packaging/packages/build.sh

# Needs rpm besides. FROM=target/debug packages these programs: a release build takes minutes.
test-packages: setup ## FROM=DIR: install, upgrade and remove the packages, and run a container
	$(if $(FROM),$(CARGO) build --workspace --bins --examples)
	CARGO='$(CARGO)' packaging/packages/build.sh $(FROM)
	packaging/packages/test.sh $${CARGO_TARGET_DIR:-target}/packages $(FROM)

# Takes as long as two release builds.
test-reproducible: setup ## build the packages of the last commit twice, and compare their bytes
	CARGO='$(CARGO)' packaging/packages/reproducible.sh

# GUESTS='uml' limits the tests to these guests (default: uml, uml510, swapless, systemd, qemu);
# see integration/guests.
test-cgroup2: setup ## enforcement in guests with cgroup v2, one with Linux 5.10 (GUESTS=)
	integration/guests/setup.sh
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	for test in enforcement real; do \
		$(TEST) $$test --no-run --message-format=json | \
		sed -n '/"name":"'$$test'"/s/.*"executable":"\([^"]*\)".*/\1/p' \
		>target/integration/$$test || exit; done
	integration/run-tests.sh integration/guests/enforcement.sh \
		"$$(cat target/integration/enforcement)" "$$(cat target/integration/real)" $(GUESTS)

# The rootless engines on the cgroups of the host are among test-engines.
test-rootless: setup ## rootless Podman, Docker, nerdctl on cgroup v2, in a guest with systemd
	integration/guests/setup.sh uml
	integration/engines/setup.sh --suites trixie
	$(CARGO) build --workspace --bins --examples
	integration/run-tests.sh integration/guests/rootless.sh trixie

# The engine and plugins update containers of runc and crun at random and at the same time.
test-updates: setup ## UPDATES=10000, CONTAINERS=100: random updates, checked against the cgroups
	integration/plugins/build.sh
	$(CARGO) build --workspace --bins --examples
	NRI_UPDATES=$(or $(UPDATES),10000) NRI_CONTAINERS=$(or $(CONTAINERS),100) \
		$(TEST) enforcement random -- --nocapture

# BASE is the commit of the earlier version, by default the one in takeover.sh. Each version takes
# over containers, records and installations of the other.
test-takeover: setup ## BASE=COMMIT: an upgrade from an earlier version and a downgrade to it
	CARGO='$(CARGO)' integration/takeover.sh $(BASE)

# SOURCE is a checkout of runc, RUNC the program to test. GUEST=uml runs the tests on cgroup v2.
runc-suite: ## SOURCE=DIR RUNC=FILE: compare runc's own tests on bare runc and on the wrapper
	$(CARGO) build --workspace --bins --examples
	$(if $(GUEST),GUEST='$(GUEST)') integration/runc-suite.sh '$(SOURCE)' \
		'$(or $(RUNC),$(shell command -v runc))' $(MODES)

# nrid, wrappers, plugins, connections and the disk fail at random while containers are created,
# updated and deleted on runc and crun.
chaos: setup ## SECONDS=600, SEED=N: life cycles of containers with random failures
	integration/plugins/build.sh target/integration gostub
	$(CARGO) build --workspace --bins --examples
	NRI_CHAOS_SECONDS=$(or $(SECONDS),600) $(if $(SEED),NRI_CHAOS_SEED=$(SEED)) \
		$(TEST) chaos -- --nocapture

# POINTS='nrid 17' tests one crash point, POINTS='wrapper create' those of one victim and verb.
# BEFORE_6_15=1 tests as on Linux before 6.15.
crash-points: setup ## kill nrid and the wrapper before each of their changes (POINTS=)
	integration/plugins/build.sh target/integration gostub
	$(CARGO) build --workspace --bins --examples
	NRI_CRASH_POINTS='$(or $(POINTS),all)' $(if $(BEFORE_6_15),target/debug/before-6-15) \
		$(TEST) crash_points -- --nocapture

vectors: ## FILES='a.jsonl b.jsonl': run merge vectors
	$(CARGO) run -q -p nri-tests --bin vectors -- $(FILES)

# Needs Go, and the network for versions that are not in Go's module cache.
topology-histories: ## HISTORIES=100000: random histories for the plugin topology
	NRI_TOPOLOGY_HISTORIES='$(or $(HISTORIES),100000)' \
		$(TEST) histories -- --nocapture

# Runs few containers in the guest: each process takes seconds to start there.
test-topology: setup ## containers on CPUs by the plugin topology, here and on 16 CPUs, 2 nodes
	$(CARGO) build --workspace --bins
	integration/run-tests.sh $(TEST) topology -- --nocapture
	integration/guests/setup.sh qemu
	integration/guests/topology.sh

check-upstream: ## what the newest NRI's protocol adds and changes (VERSION= for another one)
	$(CARGO) run -q -p nri-tests --bin check-upstream -- '$(VERSION)'

# SOURCE is a checkout of containerd/nri: its plugins are modules that are not published. Needs Go.
# SEED and PODS are the seed and the number of generated pods.
compare-plugins: ## SOURCE=DIR: compare the shipped plugins with upstream's
	integration/plugins/samples.sh '$(SOURCE)'
	$(CARGO) build --workspace --bins --examples
	NRI_TEST_SAMPLES='$(CURDIR)/target/integration/samples' NRI_UPSTREAM='$(SOURCE)' \
		$(if $(SEED),NRI_SEED=$(SEED)) $(if $(PODS),NRI_PODS=$(PODS)) \
		$(TEST) plugins -- --nocapture

# SOURCE is a checkout of containers/nri-plugins. EVENTS and SEED are the number of events on each
# machine and their seed, JSON a file for all figures. The results are in
# docs/reference/topology-compared.md.
compare-placement: ## SOURCE=DIR: compare exclusive CPUs by topology with those by nri-plugins
	integration/plugins/policies.sh '$(SOURCE)'
	$(CARGO) build --workspace --bins --examples
	NRI_TEST_POLICIES='$(CURDIR)/target/integration/policies' \
		$(if $(EVENTS),NRI_EVENTS=$(EVENTS)) $(if $(SEED),NRI_SEED=$(SEED)) \
		$(if $(JSON),NRI_JSON='$(abspath $(JSON))') \
		$(TEST) placement -- --nocapture

fuzz: ## SECONDS=600: run each fuzz target; needs stable Rust and a C++ compiler
	tests/fuzz/run.sh $(or $(SECONDS),600)

fuzz-short: ## SECONDS=20: as fuzz
	tests/fuzz/run.sh $(or $(SECONDS),20)

# ROWS='verb life' limits the measurements, QUICK=1 takes a few minutes, OUT is the directory of the
# results. BUILD=COMMIT also compares the release build with that of an earlier commit. See
# integration/bench/README.md.
bench: export CARGO_INCREMENTAL = 0
bench: setup release ## compare with bare runtimes and upstream's NRI (ROWS=, QUICK=1, OUT=, BUILD=)
	$(CARGO) build --release -p nri-bench
	$(CARGO) build --release -p nri-integration --bin before-6-15
	$(CARGO) test --release -p nrid --test operate --no-run
	TMPDIR=$(or $(TMPDIR),/dev/shm) $${CARGO_TARGET_DIR:-target}/release/nri-bench \
		$(if $(QUICK),--quick) \
		$(if $(OUT),--out '$(OUT)') $(if $(BUILD),--build '$(BUILD)') $(ROWS)

# SERVICES='heavy redis', NEIGHBOURS='compute-heavy' and WAYS='topology rules' select what is
# measured, RUNS=20 and SECONDS=5 how long: all of it takes hours, QUICK=1 a few minutes. ADD=1 adds
# to the figures of earlier runs, SEED=N repeats an order, SUITE is that of Docker, OUT the directory
# of the results. See integration/bench/README.md.
isolation: export CARGO_INCREMENTAL = 0
isolation: setup release ## a service beside its neighbours (QUICK=1, SERVICES=, WAYS=, OUT= …)
	integration/engines/setup.sh --suites '$(or $(SUITE),trixie)'
	$(if $(or $(findstring redis,$(SERVICES)),$(if $(SERVICES)$(QUICK),,all)), \
		integration/bench/isolation/redis.sh)
	$(CARGO) build --release -p nri-bench
	TMPDIR=$(or $(TMPDIR),/dev/shm) $${CARGO_TARGET_DIR:-target}/release/nri-bench-isolation \
		$(if $(QUICK),--quick) $(if $(ADD),--add) $(if $(RUNS),--runs '$(RUNS)') \
		$(if $(SECONDS),--seconds '$(SECONDS)') $(if $(SERVICES),--services '$(SERVICES)') \
		$(if $(NEIGHBOURS),--neighbours '$(NEIGHBOURS)') $(if $(WAYS),--ways '$(WAYS)') \
		$(if $(SEED),--seed '$(SEED)') $(if $(SUITE),--suite '$(SUITE)') \
		$(if $(OUT),--out '$(OUT)')

# Needs valgrind. Incremental builds are cut into other units, and so have other instructions.
instructions: export CARGO_INCREMENTAL = 0
instructions: ## compare counts of instructions with the recorded ones (RENEW=1 records them)
	CARGO='$(CARGO)' shim/build.sh "$${CARGO_TARGET_DIR:-target}/release"
	$(CARGO) build --release -p nri-bench --no-default-features --bin nri-bench-instructions
	$${CARGO_TARGET_DIR:-target}/release/nri-bench-instructions $(if $(RENEW),--renew)

# Needs a hard limit of 20,000 open files. Not timed.
test-size: setup release ## CONTAINERS=2000: 10,000 containers without processes, and real ones
	$(CARGO) test --release -p nrid --test operate many:: -- \
		--ignored --nocapture --test-threads 1
	NRI_SIZE_CONTAINERS=$(or $(CONTAINERS),2000) \
		$(CARGO) test --release -p nri-integration --test size at_once -- --nocapture

# Containers of crun, or of runc, that exist one after the other, spread over the time.
soak: setup release ## SECONDS=2400, LIVES=20000: nothing is left of containers that were deleted
	NRI_SOAK_SECONDS=$(or $(SECONDS),2400) NRI_SOAK_LIVES=$(or $(LIVES),20000) \
		$(CARGO) test --release -p nri-integration --test size soak -- --nocapture

lint: ## format, clippy, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

# The crates for plugins and for runtimes as they would be published. Cargo takes the registry of
# packages that it makes below the target directory for one that never changes: each run needs
# another path.
# Needs no network if the workspace has been built.
test-crates: ## package the published crates and build the packages
	$(CARGO) check --offline -p nri-plugin --no-default-features
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		$(CARGO) package --offline --allow-dirty --target-dir "$$dir" \
		-p nri-values -p nri-api -p nri-wire -p nri-plugin \
		-p nri-merge -p nri-mountinfo -p nri-trust -p nri-spec -p nri-adaptation -p nri-runtime

# SHORT=short omits the tests with real containers.
sanitize: setup ## test the programs with unsafe code with address sanitizer (SHORT=)
	CARGO='$(CARGO)' tests/sanitize.sh $(SHORT)

# Needs rustup.
test-aarch64: ## wrapper and hook on aarch64, with their unit tests, in qemu-user
	CARGO='$(CARGO)' tests/aarch64.sh

# Needs cargo-deny (cargo install cargo-deny). Advisories are checked if RustSec's database can be
# fetched.
deny: ## check dependencies: licenses, banned crates, sources, advisories
	CARGO='$(CARGO)' tests/deny.sh

clean: ## remove all build outputs
	$(CARGO) clean
