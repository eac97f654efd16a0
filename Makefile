# The commands of a working day. `make help` lists them.
#
# Everything runs in .venv, made the first time any of them is called, from requirements.lock (versions and hashes);
# `make demo` and `make ui` need less, from dev/locks/demo.lock, if .venv is not there yet.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NEWEST := .newest
AUDIT := .audit
LINTERS := .linters
DBT := .dbt
STAMP := $(VENV)/.installed
RUNS := $(or $(wildcard $(STAMP)),$(VENV)/.runs)
PYTEST := $(BIN)/python -m pytest
# The variable turns off an advertisement of mkdocs-material.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
# A worker takes 2 GB; see `pytest_xdist_auto_num_workers` in lake_assets_tests/conftest.py.
WORKERS := -n auto --maxprocesses 4 --dist worksteal
JUNIT := build/tests.xml
SUITE := $(PYTEST) $(WORKERS) --junitxml=$(JUNIT)
STACK := $(BIN)/python -m dev.stack
# The sources of Debian's packages for `make image-test`: a file, a URL, or nothing for Debian's own.
DEBIAN :=
# Of `make soak`: random tables of `differential/` from a seed on, random sequences and values, and random kills.
TABLES := 2000
SEED := 0
EXAMPLES := 60
# `make test ARGS='-k restore'`, `make bench-peers ARGS=--quick`, `make stack ARGS=--detach` and other options of a command.
ARGS :=

# Where an environment forbids compiled files, as many containers do, each process compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install demo ui stack stack-demo stack-status stack-stop kills docs test test-all test-cost test-newest soak lint lint-deploy image-test size format audit bench bench-peers bench-scale bench-tpch lock lock-peers clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## make .venv from the locked requirements

$(STAMP): requirements.lock dev/locks/installer.lock pyproject.toml
	PYTHON=$(PYTHON) dev/install requirements.lock
	touch $@

$(VENV)/.runs: dev/locks/demo.lock dev/locks/installer.lock pyproject.toml
	PYTHON=$(PYTHON) dev/install dev/locks/demo.lock
	touch $@

demo: $(RUNS)  ## real flights: land, ingest with Spark, change, ingest again, query
	$(BIN)/lake-assets demo

ui: $(RUNS)  ## Dagster on the demo's lake, at http://127.0.0.1:3000
	test -f demo/lake.yaml || $(BIN)/lake-assets demo
	$(BIN)/lake-assets --config demo/lake.yaml dev

stack: $(STAMP)  ## the production topology on this machine: PostgreSQL, S3, a Spark cluster, Dagster; Ctrl-C stops it
	$(STACK) up $(ARGS)

stack-demo: $(STAMP)  ## on that stack: data lands continuously, and the terminal shows how the lake follows
	$(STACK) demo $(ARGS)

stack-status: $(STAMP)  ## whether each component of the stack runs and answers
	$(STACK) status $(ARGS)

stack-stop: $(STAMP)  ## stop the stack
	$(STACK) stop $(ARGS)

kills: $(STAMP)  ## kill, stop and starve each process of a stack while data lands, and see the memory of 200 runs; an hour
	$(PYTEST) -s -n0 -m soak $(addprefix lake_assets_tests/stack/test_,recovery.py kills.py memory.py) $(ARGS)

test: $(STAMP)  ## every rule, guarantee and command once, and journeys through each door; minutes
	$(SUITE) -m 'not (more or soak or installs)' $(ARGS)

test-all: $(STAMP) $(DBT)/.installed  ## these, and more cases, catalogs and storages of each; what CI runs
	$(SUITE) -m 'not soak' $(ARGS)

test-cost: $(STAMP)  ## where the time of the last of these went: rooms, and the slowest tests
	$(BIN)/python -m dev.test_cost $(JUNIT)

soak: $(STAMP)  ## random tables, kills at every moment, many writers and clients; hours. docs/soak.md says when
	LAKE_ASSETS_TABLES=$(TABLES) LAKE_ASSETS_SEED=$(SEED) LAKE_ASSETS_EXAMPLES=$(EXAMPLES) $(SUITE) --hypothesis-profile=soak -m 'soak or hypothesis' $(ARGS)

test-newest:  ## test-all but `installs` with the newest versions that pyproject.toml permits, instead of the locked ones
	$(PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --disable-pip-version-check --quiet -e '.[dev]'
	$(NEWEST)/bin/python -m pip list --disable-pip-version-check --format freeze
	PATH=$(CURDIR)/$(NEWEST)/bin:$$PATH $(NEWEST)/bin/python -m pytest $(WORKERS) -m 'not (soak or installs)'

docs: $(STAMP)  ## the documentation's site, in site/; needs no network
	$(MKDOCS) build --strict --quiet
	@echo 'Open site/index.html, or run: $(MKDOCS) serve'

lint: $(STAMP) lint-deploy  ## ruff, mypy, the docs in strict mode and lint-deploy, no findings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MKDOCS) build --strict --quiet

lint-deploy: $(STAMP) $(LINTERS)/.installed  ## the files of deploy/, by the linter or schema of each kind
	dev/lint-deploy $(BIN) $(LINTERS)

# An environment of its own, because its dependencies are many.
$(LINTERS)/.installed: dev/locks/linters.lock
	$(PYTHON) -m venv --clear $(LINTERS)
	$(LINTERS)/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r $<
	touch $@

# dbt for its example, in an environment of its own too: it requires older versions of the linters' packages.
$(DBT)/.installed: dev/locks/dbt.lock
	$(PYTHON) -m venv --clear $(DBT)
	$(DBT)/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r $<
	touch $@

image-test: $(STAMP)  ## build deploy/image by buildah on a base of Debian's packages, and run it; as root, with mmdebstrap
	mkdir -p build
	mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates bookworm build/base.tar $(DEBIAN)
	LAKE_ASSETS_IMAGE_BASE=build/base.tar $(PYTEST) lake_assets_tests/deploy/test_image_build.py

size: $(STAMP)  ## lines, files, branches and parameters of each room, and the functions that one refresh enters
	$(BIN)/python -m dev.size

format: $(STAMP)  ## let ruff format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

audit:  ## compare the locked packages with the published vulnerabilities; asks PyPI
	$(PYTHON) -m venv --clear $(AUDIT)
	$(AUDIT)/bin/python -m pip install --disable-pip-version-check --quiet pip-audit
	$(AUDIT)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock

bench: $(STAMP)  ## ratios against DuckDB, pyarrow and Spark's own reader and writer
	$(BIN)/python -m dev.benchmarks

bench-peers: $(STAMP)  ## this package beside its peers, each in an environment of its own, which pip makes the first time
	$(BIN)/python -m dev.benchmarks.peers $(ARGS)

bench-tpch: $(STAMP)  ## TPC-H's lineitem beside the peers: backfill, restatements, writers, kills, a reader, queries
	$(BIN)/python -m dev.benchmarks.tpch $(ARGS)

bench-scale: $(STAMP)  ## how cost grows with writers, partitions, ledger rows and objects
	$(BIN)/python -m dev.benchmarks.scale $(ARGS)

lock: $(STAMP)  ## resolve requirements.lock again from pyproject.toml, and from it those of the image
	dev/lock $(BIN)

lock-peers: $(STAMP)  ## resolve the lock files of the benchmark's peers again
	dev/lock $(BIN) peers

clean:  ## remove what the commands above made, but not the demo's lake
	rm -rf $(VENV) $(NEWEST) $(LINTERS) $(DBT) .peers site .dagster .pytest_cache .mypy_cache .ruff_cache .hypothesis
