# Everything a contributor runs. `make` lists the targets.

CARGO ?= cargo
# Optimised, with every assertion of a debug build. The models have bugs planted in the keeper; its own
# explorer needs the same build.
MODELS = $(CARGO) test --locked --profile soak -p raindrop-keeper -p raindrop-models
LOOM = $(CARGO) test --locked --profile soak -p raindrop-core --features loom,planted

# For suites that wait more than they work: more tests at a time than there are cores.
WAITING = --test-threads=4

# The benchmarks are a package of their own, so that no peer is in the product's tree.
BENCH = CARGO_TARGET_DIR=$(or $(CARGO_TARGET_DIR),target)/bench/build $(CARGO)
BENCH_AT = --manifest-path bench/Cargo.toml

# For `make soak`: the seeds to simulate (FIRST=n begins elsewhere), how often each fault strikes on
# each engine, and the seconds for which the database is away with the default settings.
SEEDS ?= 1000000
ROUNDS ?= 5
OUTAGE ?= 210
# For `make soak-overload`: how long it lasts, and the number of slow clients.
SECONDS ?= 60
SLOW ?= 10000
# For `make fleets`: the numbers of nodes, the delays of answers, and the seconds of a run.
NODES ?= 100 200 300
LATE_MS ?= 200 400 800
LASTING ?= 300

# For `make fuzz`: the inputs of each kind, drawn from this seed.
CASES ?= 20000
SEED ?= $(shell date +%s)

.PHONY: help build static packages packages-test check enough-disk deps install-deps test format clippy model-lint check-build examples test-build soak-build unit-test doc-test http-test embedded-test store-test fault-test model-test explorer protocol-test loom simulation kubernetes-build mutants mutants-loom deny fuzz soak soak-simulation soak-faults soak-overload soak-models fleets \
	engine-test mysql-test kubernetes-test api-test chart-test traces-build traces-test console-test clients-test clients-fmt clients-package integrations-test tutorial-test image-test book bench bench-http bench-instructions bench-clients bench-lint lint workflow-lint fmt doc ci steps-table

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

build static: export RAINDROP_COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
build: ## the binary as it is given to others, target/dist/raindrop
	$(CARGO) build --profile dist --locked --features jemalloc,otel

static: ## the same without shared libraries; needs musl-gcc and Rust's musl target
	$(CARGO) build --profile dist --locked --features jemalloc,otel --target $(shell uname -m)-unknown-linux-musl

# Fewer inputs and schedules than `make test` tries, for an answer within half a minute.
check: export PROPTEST_CASES = 64
check: export SEEDS = 10
check: ## before a patch: format, clippy, unit tests, HTTP, the stores that need no server
	@tests/steps.bash format check-build unit-test http-test embedded-test clippy

# TARGET=…-musl packs what `make static` built.
packages: TARGET ?= $(shell uname -m)-unknown-linux-gnu
packages: ## Debian package, rpm and archive of the binary, with checksums, in target/distribution
	$(MAKE) $(if $(findstring musl,$(TARGET)),static,build)
	deploy/packages/build.sh $(or $(CARGO_TARGET_DIR),target)/$(if $(findstring musl,$(TARGET)),$(TARGET)/)dist/raindrop $(TARGET)

packages-test: ## installs, upgrades and purges the Debian package in a clean Debian with systemd; Debian, as root
	tests/packages/run.sh

deps: ## names the Debian packages that `make test` needs and this machine lacks
	@tests/deps.sh

install-deps:
	@tests/deps.sh install

test: install-deps ## `make check`, and the stores and every fault on private database servers; as root it installs them
	@tests/steps.bash format clippy test-build fault-test store-test unit-test doc-test http-test

format:
	$(CARGO) fmt --all --check

# Nothing is linked, so the allocator's library only has to be some file, and is not compiled.
clippy: export JEMALLOC_OVERRIDE = $(abspath Makefile)
clippy:
	$(CARGO) clippy --locked --all-targets --features jemalloc,otel -- -D warnings

check-build: examples
	$(CARGO) test --locked --no-run --lib --bins --test embed --test http --test store

# Tests run them; cargo leaves them out where a test is named.
examples:
	$(CARGO) build --locked --examples

test-build:
	$(CARGO) test --locked --no-run

# What `model-test` runs. Its parts share it.
soak-build:
	$(MODELS) --no-run
	$(LOOM) --no-run --lib

unit-test: examples ## all tests but those below; the explorer is a step of `model-test`
	$(CARGO) test --locked --lib --bins --test embed -- --skip tests::explorer

doc-test:
	$(CARGO) test --locked --doc

http-test: examples ## the contract of every route
	$(CARGO) test --locked --test http -- --test-threads=8

embedded-test: ## the conformance suite of the stores, in memory and on SQLite
	$(CARGO) test --locked --test store -- memory sqlite

store-test: install-deps ## the conformance suite of the stores on private servers
	$(CARGO) test --locked --test store -- $(WAITING)

fault-test: install-deps ## processes and databases that are killed, frozen and cut off
	$(CARGO) test --locked --test faults overload -- --test-threads=1
	$(CARGO) test --locked --test faults -- $(WAITING) --skip overload

model-test: simulation explorer protocol-test loom ## the four below

explorer: ## the keeper's task, every schedule of a few faults
	$(MODELS) --lib explorer

protocol-test: ## the lease protocol, every state of small worlds
	$(MODELS) --test model

# One thread: threads of one process would wait for each other, as every execution maps memory.
loom: ## issuing, every interleaving and every value that a load may see
	$(LOOM) --lib models -- --test-threads=1

simulation: ## whole nodes over a faulty store; ONLY=replay SEED=n BUG=name for one seed
	$(if $(ONLY),SEED=$(SEED) $(if $(BUG),BUG=$(BUG)) )$(MODELS) --test simulation -- \
		$(ONLY) $(if $(ONLY),--exact --nocapture)

mutants: ## cargo-mutants over the lease protocol; tests/mutants/README.md lists what may survive
	tests/mutants/run.sh

mutants-loom: ## every memory ordering of issuing weakened, one at a time, under loom
	tests/mutants/orderings.sh

engine-test: ## the store tests against IMAGE=mysql:8.4, mariadb:…, postgres:… or redis:…; needs Docker
	tests/engine/run.sh $(IMAGE)

mysql-test: install-deps ## the store tests and fail-overs of MySQL against MySQL proper, downloaded on Debian
	tests/mysql/run.sh

kubernetes-build:
	tests/kubernetes/build.sh

kubernetes-test: kubernetes-build ## the store tests and faults of Kubernetes against a real API server; builds it with Go
	@tests/deps.sh install faketime openssl
	$(CARGO) test --locked --test store --test faults kubernetes -- --ignored

api-test: ## a running service against its API document, with made-up requests; installs schemathesis
	tests/api/run.sh

chart-test: ## the Helm chart on a real API server, the alerts and the dashboard; installs what it needs
	tests/chart/run.sh

traces-build:
	tests/traces/build.sh

traces-test: ## what a collector of OpenTelemetry gets of a running service; builds the collector with Go
	tests/traces/run.sh

console-test: ## the console in a browser; installs Chromium and Playwright. UPDATE=1 rewrites docs/images
	tests/console/run.sh

clients-test: ## the clients in Go, JavaScript, Java and Python, against the real service; installs Maven
	tests/clients/run.sh

clients-fmt: ## formats the clients in Java, Go and JavaScript
	tests/clients/format.sh --write

clients-package: ## builds the packages of the clients into target/packages, and checks what is in them
	tests/clients/package.sh

integrations-test: install-deps ## the clients in Chromium and with Spring, MyBatis-Plus, Hibernate, GORM, Prisma, Drizzle, Django, SQLAlchemy
	tests/clients/js-browser.sh
	tests/clients/js-integrations.sh
	tests/clients/go-integrations.sh
	tests/clients/python-integrations.sh
	tests/clients/java-integrations.sh

tutorial-test: ## the commands of docs/tutorial.md on real servers, and what they print; installs PostgreSQL and Prometheus
	tests/tutorial/run.sh

image-test: ## builds the container image without a daemon and runs it once; Debian, as root
	tests/image/run.sh

fuzz: ## the property tests with CASES=n inputs each, from SEED=n; a failing input is kept
	PROPTEST_CASES=$(CASES) PROPTEST_RNG_SEED=$(SEED) $(CARGO) test --locked \
		--lib --test http --test store -- encoding:: layout:: properties:: corpus:: corrupt_rows::

deny: ## advisories, licences, bans and sources of every dependency; builds cargo-deny if need be
	tests/deny/run.sh

fleets: install-deps ## fleets on databases that become slow: ENGINE= one of them, NODES=, LATE_MS=, for LASTING= seconds
	ENGINE=$(ENGINE) NODES="$(NODES)" LATE_MS="$(LATE_MS)" LASTING=$(LASTING) \
		$(CARGO) test --locked --test store -- --ignored --exact fleet::report --nocapture

soak: soak-simulation soak-faults soak-overload soak-models ## the four below, at full volume

soak-simulation: ## SEEDS=n seeds of the simulation, with progress; FIRST=n begins elsewhere
	SEEDS=$(SEEDS) $(MODELS) --test simulation -- --nocapture

soak-faults: install-deps ## every fault ROUNDS=n times on real processes, and OUTAGE=n seconds without the database
	ROUNDS=$(ROUNDS) OUTAGE=$(OUTAGE) $(CARGO) test --locked --profile soak --test faults -- \
		--nocapture --test-threads=3 every_fault with_the_default_settings

soak-overload: install-deps ## SECONDS=n at twice the capacity, and as long with SLOW=n slow clients; needs as many open files
	SECONDS=$(SECONDS) SLOW=$(SLOW) $(CARGO) test --locked --profile soak --test faults -- \
		--nocapture --test-threads=1 overload

soak-models: ## the larger worlds of the models
	RAINDROP_MODEL=large $(MAKE) model-test

bench: ## the generator beside its peers and the machine's limits; PLOTS=docs/performance keeps plots, and tables in bench/results
	$(BENCH) run $(BENCH_AT) --locked --release --bin in_process -- $(if $(PLOTS),--plots $(PLOTS))

bench-http: build ## the service beside bare servers, nginx and Redis, on two cores; PLOTS as above
	$(BENCH) build $(BENCH_AT) --locked --release --bin bare_axum --bin bare_hyper
	$(BENCH) run $(BENCH_AT) --locked --release --bin http -- $(if $(PLOTS),--plots $(PLOTS)) \
		--raindrop $(or $(CARGO_TARGET_DIR),target)/dist/raindrop

bench-instructions: build ## instructions and allocations of a request, by callgrind; JSON=1 for scripts
	@tests/deps.sh install valgrind >&2
	@bench/instructions.py $(if $(JSON),--json) $(or $(CARGO_TARGET_DIR),target)/dist/raindrop

bench-clients: export RAINDROP ?= $(abspath $(or $(CARGO_TARGET_DIR),target))/dist/raindrop
bench-clients: build ## what an ID costs in the clients and in other generators, and requests for a rate
	clients/go-bench/run.sh
	clients/java-bench/run.sh
	clients/js-bench/run.sh
	clients/python-bench/run.sh

bench-lint: ## formatting, clippy and tests of the benchmarks; compiles every peer
	$(BENCH) fmt $(BENCH_AT) --check
	$(BENCH) clippy $(BENCH_AT) --locked --all-targets -- -D warnings
	$(BENCH) test $(BENCH_AT) --locked

workflow-lint: ## the GitHub workflows and the shell scripts; installs actionlint and shellcheck
	tests/workflows/run.sh

fmt: ## formats the code
	$(CARGO) fmt --all

lint: format clippy model-lint ## formatting and clippy, warnings denied

model-lint: ## clippy of the models, and of the library with each engine and each feature of `Id` alone
	$(CARGO) clippy --locked -p raindrop-keeper -p raindrop-models --all-targets -- -D warnings
	$(CARGO) clippy --locked -p raindrop-keeper -- -D warnings
	for engine in kubernetes mysql postgres redis sqlite; do \
	  $(CARGO) clippy --locked -p raindrop-store --features $$engine -- -D warnings || exit 1; \
	done
	for feature in serde sqlx sqlx-postgres utoipa; do \
	  $(CARGO) clippy --locked -p raindrop-core --features $$feature -- -D warnings || exit 1; \
	done

# With an example, which has the features of the tests: so the dependencies are those that clippy has
# checked. The core, whose features the tests turn on, is documented without them, too.
doc: export RUSTDOCFLAGS = -D warnings
doc: ## the API documentation, warnings denied
	$(CARGO) doc --locked --no-deps -p raindrop-core
	$(CARGO) doc --locked --no-deps --lib --example blocks

book: ## the book of docs/ in target/book, with every link checked; builds mdBook once
	@deploy/book/build.sh

ci: enough-disk install-deps ## what decides whether a change lands
	@tests/steps.bash --table format workflow-lint book clippy model-lint doc traces-build test-build kubernetes-build deny \
		fault-test console-test store-test soak-build clients-test integrations-test chart-test \
		kubernetes-test loom protocol-test explorer traces-test tutorial-test simulation unit-test http-test api-test doc-test

# Else a full disk shows after half an hour, as a test that fails.
enough-disk:
	@tests/enough_disk.sh 8

steps-table: ## rewrites CONTRIBUTING.md's table of the steps with the seconds of the last run
	UPDATE=1 tests/steps_table.sh
