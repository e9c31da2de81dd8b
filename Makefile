# Everything a contributor runs. `make` lists the targets.

CARGO ?= cargo

SEEDS ?= 100000

.PHONY: help build test soak mysql-test lint fmt doc ci

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

build: ## the release binary, target/release/raindrop
	$(CARGO) build --release --locked

test: ## every test there is; starts private database servers, installing them if need be
	$(CARGO) test --locked
	$(CARGO) test --locked --no-default-features --lib --test embed

mysql-test: ## the store tests of MySQL against MySQL proper, downloaded on Debian
	tests/mysql/run.sh

soak: ## SEEDS=n seeds of the simulation, with progress; FIRST=n begins elsewhere
	SEEDS=$(SEEDS) $(CARGO) test --locked --profile soak --no-default-features --features keeper \
		--test simulation -- --nocapture

fmt: ## formats the code
	$(CARGO) fmt

lint: ## formatting and clippy, warnings denied, with default and without default features
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --no-default-features --lib --test embed -- -D warnings
	for feature in keeper mysql postgres redis sqlite; do \
	  $(CARGO) clippy --locked --no-default-features --features $$feature --lib -- -D warnings || exit 1; \
	done

doc: ## the API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

ci: lint doc test ## what decides whether a change lands
