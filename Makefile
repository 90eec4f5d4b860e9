# The front door: every command a contributor or the build needs. `make` alone lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CORE   := $(VENV)/.core
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help setup test check fmt demo bench sim mutants chaos recovery ha matrix cron-proof lock clean

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?/  make \1\t/' | expand -t 20

setup: $(STAMP)  ## make .venv with exactly the locked packages

# The stamp is younger than what it was made from; a changed lock or pyproject installs again.
$(STAMP): $(CORE) requirements-dev.lock
	$(PIP) --require-hashes -r requirements-dev.lock
	touch $@

# What Detent itself needs: the demo starts after this.
$(CORE): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

# Two at a time: half of the tests wait for processes and servers most of the time.
PARALLEL ?= -n 2 --dist loadfile
test: setup      ## run the whole suite (ARGS="-k claim -x")
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)
	# The store once more on the newest PostgreSQL, which the wheel brings, whatever the system has.
	DETENT_TEST_PG_BIN=$$($(BIN)/python -m detent.testing.postgres_programs) \
		$(BIN)/python -m pytest -q tests/conformance/test_postgres.py $(ARGS)

check: setup     ## lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: setup       ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(CORE)     ## run a few thousand jobs on three nodes, and kill one of them
	$(BIN)/detent demo

bench: setup     ## measure (ARGS="--only drain --n 100000")
	$(BIN)/python -m bench $(ARGS)

SEEDS ?= 2000
sim: setup       ## simulate a cluster in trouble, seed by seed (SEEDS=20000 ARGS="--faults kill,pause")
	$(BIN)/python -m detent.testing.simulation 0-$$(($(SEEDS) - 1)) $(ARGS)

mutants: setup   ## plant known bugs one by one, and demand that the simulation notices each
	$(BIN)/python -m tests.sim.mutants $(ARGS)

chaos: setup     ## run 100,000 jobs while nodes and PostgreSQL are killed (ARGS="--seed 2")
	$(BIN)/python -m tests.chaos $(ARGS)

recovery: setup  ## measure how long the cluster takes to get over a loss (ARGS="host child")
	$(BIN)/python -m tests.chaos.recovery $(ARGS)

ha: setup        ## fail over on real Patroni and etcd, by three ways (ARGS="--setup hosts --rounds 1")
	$(BIN)/python -m tests.ha $(ARGS)

matrix: setup    ## PostgreSQL 13 to 18 against the conformance tests (ARGS="--only 13,18")
	$(BIN)/python tools/matrix.py $(ARGS)

cron-proof: setup ## every zone, random crons, croniter and cronsim against a slow oracle (ARGS="--part peers")
	$(BIN)/python -m tools.cron_proof $(ARGS)

lock:            ## resolve the lock files again (ARGS=--upgrade for newer versions)
	test -x .lock-venv/bin/uv || { $(PYTHON) -m venv .lock-venv && .lock-venv/bin/python -m pip install --quiet uv; }
	$(COMPILE) --group build --output-file requirements.lock $(ARGS)
	$(COMPILE) --group build --group dev --constraint requirements.lock --output-file requirements-dev.lock $(ARGS)

COMPILE = .lock-venv/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
    --all-extras --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'

clean:           ## remove everything that was made here
	rm -rf $(VENV) .lock-venv .matrix build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
