# Everything that is done with this project, by name. `make` alone lists it.
#
# Nothing is built inside the clone: CARGO_TARGET_DIR is respected, else each clone has a directory of its own in the user's
# cache (.ci/target-dir), which .ci/run and the scripts use as well.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sealpost
# Whether `make clean` may remove it as a whole.
IS_OWN := $(if $(CARGO_TARGET_DIR),,yes)
CARGO_TARGET_DIR := $(shell .ci/target-dir)
export CARGO_TARGET_DIR

# In CI, Cargo.lock must be up to date; at a desk cargo may bring it up to date.
LOCKED := $(if $(CI),--locked)
# The tests build the `dev` profile, in which dependencies are optimised: quick enough to be driven from outside too.
DEBUG := $(CARGO_TARGET_DIR)/debug
RELEASE := $(CARGO_TARGET_DIR)/release

# Options of the program that the target runs.
ARGS ?=
# Of `make crash` and of the short run in `make test`.
KILLS ?= 3000
KILLS_SHORT ?= 200
# Of `make crash-damage` and of the short run in `make test`.
KILLS_DAMAGE ?= 500
KILLS_DAMAGE_SHORT ?= 10
# Of `make crash-sending` and of the short run in `make test`.
KILLS_SENDING ?= 1000
KILLS_SENDING_SHORT ?= 10
# Of `make crash-archive`.
KILLS_ARCHIVE ?= 300
# Of `make crash-restore`; most runs wait for the server first.
KILLS_RESTORE ?= 40
# Hostile clients in `make test`: few and short. The limit is on what a debug build uses beside its program, whose pages
# take 50 MiB; the kernel ends a server that takes more than the hard limit.
CROWD_SHORT ?= --crowd 60 --half-open 500 --hold 2 --memory 64MiB --without-program --limit-mib 40 --hard-limit-mib 256 --timeout-each 600
# Of `make fuzz`.
SECONDS ?= 60
# Of `make sim`.
SECONDS_MAX ?= 60

.PHONY: help
help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  ARGS=\"…\" goes to the program that runs: make run ARGS=\"--ports free\""
	@echo "  Built in $(CARGO_TARGET_DIR):"
	@echo "  each clone has a directory of its own; CARGO_TARGET_DIR names another"

.PHONY: run
run: build ## Build a release binary and try it: a server with samples in ./sealpost-data
	@exec "$(RELEASE)/sealpost" try $(ARGS)

.PHONY: build
build: ## Build the release binary, and its debug information beside it
	@cargo build --release $(LOCKED) -p sealpost
	@.ci/ship "$(RELEASE)/sealpost" "$(RELEASE)/ship"

.PHONY: clean
clean: ## Remove what was built from this clone
	@$(if $(IS_OWN),rm -rf "$(CARGO_TARGET_DIR)" "$(CARGO_TARGET_DIR).clone",cargo clean)

.PHONY: prune
prune: ## Remove what was built from clones that are gone
	@for clone in "$(CACHE)"/target-*.clone; do \
		if [ -e "$$clone" ] && [ ! -e "$$(cat "$$clone")/Makefile" ]; then \
			echo "$${clone%.clone}, of $$(cat "$$clone")"; rm -rf "$${clone%.clone}" "$$clone"; \
		fi; \
	done

.PHONY: test
test: test-unit test-interop test-crash test-crowd ## Everything that must hold: tests, real clients, a short crash run

# Unit tests, transcripts, models, simulations, fuzz corpora.
.PHONY: test-unit
test-unit:
	@cargo test $(LOCKED) --workspace --no-fail-fast

.PHONY: test-binaries
test-binaries:
	@cargo build $(LOCKED) --workspace --bins

.PHONY: test-interop
test-interop: test-binaries
	@tests/interop/install.sh
	@python3 tests/interop/run.py --sealpost "$(DEBUG)/sealpost"

.PHONY: test-crash
test-crash: test-binaries
	@"$(DEBUG)/sealpost-rig" crash --sealpost "$(DEBUG)/sealpost" --kills $(KILLS_SHORT)
	@"$(DEBUG)/sealpost-rig" crash --sealpost "$(DEBUG)/sealpost" --damage --kills $(KILLS_DAMAGE_SHORT)
	@tests/crash/sending.py --sealpost "$(DEBUG)/sealpost" --kills $(KILLS_SENDING_SHORT) --terms 3

.PHONY: test-crowd
test-crowd: test-binaries
	@"$(DEBUG)/sealpost-rig" crowd --sealpost "$(DEBUG)/sealpost" $(CROWD_SHORT)

.PHONY: lint
lint: ## Formatting, clippy, lock files; links and language of the documentation; walls between crates; RFC coverage and tables
	@cargo fmt --all --check
	@cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings
	@cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	@python3 tests/docs/check_links.py
	@python3 tests/docs/prose.py --self-test
	@python3 tests/docs/prose.py
	@python3 tests/docs/constants.py --self-test
	@python3 tests/docs/constants.py
	@python3 tests/docs/rfc_coverage.py --check
	@python3 tests/structure/dependencies.py
	@python3 tests/structure/circles.py
	@python3 tests/structure/test_names.py --self-test
	@python3 tests/structure/test_names.py
	@python3 crates/mime/tables/make.py --check

.PHONY: fmt
fmt: ## Format the code
	@cargo fmt --all

.PHONY: interop
interop: ## Drive a release binary with clients that are not ours (ARGS="--strict": none may be missing)
	@tests/interop/run.sh $(ARGS)

.PHONY: crash
crash: ## Kill a release binary under load, KILLS times (3000), and verify what it acknowledged (SEED=…)
	@KILLS=$(KILLS) tests/crash/run.sh $(ARGS)

.PHONY: crash-damage
crash-damage: test-binaries ## Kill a server, flip bits and plant objects, KILLS_DAMAGE times (500); check, serve and repair (ARGS="--seed N")
	@"$(DEBUG)/sealpost-rig" crash --sealpost "$(DEBUG)/sealpost" --damage --kills $(KILLS_DAMAGE) $(ARGS)

.PHONY: crash-sending
crash-sending: build ## Kill a server that sends mail on, KILLS_SENDING times (1000), and count what arrives (ARGS="--seed N")
	@tests/crash/sending.py --sealpost "$(RELEASE)/sealpost" --kills $(KILLS_SENDING) --terms 30 $(ARGS)

.PHONY: internet
internet: build ## Mail to and from Postfix, Exim and OpenSMTPD over an internet in a box; needs root (see tests/internet/mail.py)
	@cargo build --quiet $(LOCKED) -p sealpost-dns --example lookup
	@tests/internet/resolver.py "$(DEBUG)/examples/lookup"
	@tests/internet/mail.py "$(RELEASE)/sealpost" $(ARGS)

.PHONY: bench-send
bench-send: ## Race Sealpost, Postfix, Exim and OpenSMTPD at sending mail on; needs root (ARGS="--runs 3"; see bench/send.py)
	@bench/send.sh $(ARGS)

.PHONY: crash-archive
crash-archive: build ## Kill pulls of archives, KILLS_ARCHIVE times (300), and compare what is left of the copies (ARGS="--seed N")
	@tests/crash/archive.py --sealpost "$(RELEASE)/sealpost" --kills $(KILLS_ARCHIVE) $(ARGS)

.PHONY: crash-restore
crash-restore: build ## Kill restores and migrations, KILLS_RESTORE times (40), and compare what they put there (ARGS="--seed N")
	@tests/crash/restore.py --sealpost "$(RELEASE)/sealpost" --kills $(KILLS_RESTORE) $(ARGS)

.PHONY: sim
sim: ## Simulate histories of several nodes on one store (SEED=…, SECONDS_MAX=…)
	@cargo build --release $(LOCKED) -p sealpost-sim
	@"$(RELEASE)/sealpost-sim" --seconds-max $(SECONDS_MAX) $(and $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: stores
stores: ## Real stores (Garage, Versity S3 Gateway) and Azurite: contract, servers that are killed and cut off (ARGS="--only garage")
	@tests/stores/run.sh $(ARGS)

.PHONY: memory
memory: build ## A 1 GiB message in and out below 64 MiB, and clients that stall, flood and never finish
	@cargo build --release $(LOCKED) -p sealpost-rig
	@"$(RELEASE)/sealpost-rig" huge --sealpost "$(RELEASE)/sealpost"
	@"$(RELEASE)/sealpost-rig" hostile --sealpost "$(RELEASE)/sealpost"
	@"$(RELEASE)/sealpost-rig" crowd --sealpost "$(RELEASE)/sealpost"

.PHONY: bench
bench: ## Measure beside Dovecot and write docs/benchmarks.md and docs/benchmark-runs.md (ARGS="--only LMTP --runs 3" writes nothing)
	@bench/run.sh $(ARGS)

.PHONY: guessing
guessing: build ## Right logins while 0, 100 and 700 addresses guess passwords (ARGS="--addresses 0,700 --seconds 30")
	@bench/guessing.py --sealpost "$(RELEASE)/sealpost" $(ARGS)

.PHONY: entry-mac
entry-mac: ## What the MAC of a log entry costs a delivery and a reader, in a release build
	@cargo run --release $(LOCKED) --quiet -p sealpost-vault --example entry_mac

.PHONY: fuzz
fuzz: ## Fuzz one target: make fuzz TARGET=mime_scanner SECONDS=300
	@fuzz/run.sh $(and $(TARGET),"$(TARGET)" "$(SECONDS)" $(ARGS))
