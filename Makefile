# Everything Ash needs is set up by the first target that needs it; Python 3.11+ and make are enough.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help env demo test test-all check bench bench-smoke openapi screenshots requirements clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Users get what the server needs; a development environment holds all of that too, so either satisfies `demo`.
.venv/.server: requirements/server.txt pyproject.toml
	@test -e .venv/.dev || sh requirements/install.sh "$(PYTHON)" .venv server
	@touch $@

.venv/.dev: requirements/dev.txt pyproject.toml
	@sh requirements/install.sh "$(PYTHON)" .venv dev
	@touch .venv/.server $@

# The peers want older versions of what the server uses, so they have an environment of their own.
.venv-bench/.bench: requirements/bench.txt pyproject.toml
	@sh requirements/install.sh "$(PYTHON)" .venv-bench bench
	@touch $@

env: .venv/.dev  ## set up the development environment

demo: .venv/.server  ## start Ash with sample sessions and open its viewer
	@$(BIN)/ash demo

# Each process has its own PostgreSQL server and its own browser; one that is out of work takes over tests of the other.
PYTEST := $(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist worksteal

test: .venv/.dev  ## run the tests, on a real PostgreSQL and in a real browser
	@$(PYTEST) -m "not slow"

test-all: .venv/.dev  ## run every test, the slow ones too
	@$(PYTEST)

check: .venv/.dev  ## lint, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@sh tools/check-javascript.sh

openapi: .venv/.dev  ## write openapi/openapi.json and the TypeScript types made from it
	@sh openapi/generate.sh

screenshots: .venv/.dev  ## take the pictures of the viewer in docs/screenshots anew (needs Chromium)
	@$(BIN)/python -m tests.viewer.screenshots

bench: .venv-bench/.bench  ## measure Ash beside its peers and write benchmarks/RESULTS.md
	@.venv-bench/bin/python -m benchmarks

bench-smoke: .venv/.dev  ## the same, small and without peers: proves that the benches run
	@$(BIN)/python -m benchmarks --smoke

requirements:  ## compile the pinned requirements anew (needs uv)
	@sh requirements/compile.sh

clean:  ## remove the environments and caches
	rm -rf .venv .venv-bench node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
