# Each target sets up what it needs; only Python 3.11+ and make are required.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help env environments browser demo test test-all test-pooler test-cluster check types lint fuzz bench bench-smoke bench-watch bench-large chaos scale soak openapi client schema screenshots sbom docs wire requirements clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Users get the server's dependencies; the development environment includes them, so either satisfies `demo`.
.venv/.server: requirements/server.txt requirements/build.txt pyproject.toml
	@test -e .venv/.dev || sh requirements/install.sh "$(PYTHON)" .venv server
	@touch $@

.venv/.dev: requirements/dev.txt requirements/build.txt pyproject.toml
	@sh requirements/install.sh "$(PYTHON)" .venv dev
	@touch .venv/.server $@

# The compared systems need older versions of the server's dependencies and have a separate environment.
.venv-bench/.bench: requirements/bench.txt requirements/build.txt pyproject.toml
	@sh requirements/install.sh "$(PYTHON)" .venv-bench bench
	@touch $@

# openai-agents needs an older version of websockets, too; its example runs in this environment.
.venv-agents/.agents: requirements/openai-agents.txt requirements/build.txt pyproject.toml
	@sh requirements/install.sh "$(PYTHON)" .venv-agents openai-agents
	@touch $@

# Without npm, the tests of JavaScript packages are skipped.
node_modules/package.json: package.json
	@if command -v npm >/dev/null; then sh tools/install-npm-packages.sh; fi

# Without npm or a network, the tests in a browser are skipped.
browser: .venv/.dev
	@$(BIN)/python tools/install_chromium.py

env: .venv/.dev  ## set up the development environment

# `make --jobs environments` sets them up at the same time.
environments: .venv/.dev .venv-agents/.agents .venv-docs/.docs browser node_modules/package.json

demo: .venv/.server  ## start Ash with sample sessions and open its viewer
	@$(BIN)/ash demo

# Each process has its own PostgreSQL server and browser; an idle process takes over tests of another.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

# Tests start hundreds of Python processes, which would compile each module again.
unexport PYTHONDONTWRITEBYTECODE

test: .venv/.dev browser node_modules/package.json  ## run the tests, on a real PostgreSQL and in a real browser
	@$(PYTEST) -m "not slow"

test-all: .venv/.dev .venv-agents/.agents browser node_modules/package.json  ## run all tests, including the slow ones
	@$(PYTEST)

test-pooler: .venv/.dev .venv-agents/.agents browser node_modules/package.json  ## run all tests through PgBouncer in transaction mode
	@$(BIN)/python -m tests.pooler --numprocesses auto --dist worksteal

# Tests that look at one server, such as those of followers and poolers, say why they are skipped.
test-cluster: .venv/.dev  ## run the tests on the Citus cluster at ASH_TEST_CITUS_URL, in a database for tests
	@test -n "$$ASH_TEST_CITUS_URL" || { echo "set ASH_TEST_CITUS_URL to the coordinator of a cluster" >&2; exit 1; }
	@$(BIN)/python -m pytest tests/server tests/stores tests/client -m "not slow and not browser"

check: lint types  ## check lint rules, formatting and types

types: .venv/.dev
	@$(BIN)/mypy
	@sh tools/check-javascript.sh

lint: .venv/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

fuzz: .venv/.dev  ## read 200,000 shuffled and 1,000,000 mutated lines (about 5 minutes)
	@$(BIN)/python -m tests.shared.fuzz

openapi: .venv/.dev  ## write openapi/openapi.json and its TypeScript types
	@sh openapi/generate.sh

client: .venv/.dev  ## generate the synchronous client from the asynchronous one
	@$(BIN)/python -m tools.generate_sync_client

schema: .venv/.dev  ## write the tables and the view of events in schema.sql
	@$(BIN)/python -m tools.write_schema

screenshots: .venv/.dev browser  ## take the screenshots in docs/screenshots
	@$(BIN)/python -m tests.viewer.screenshots

bench: .venv-bench/.bench  ## compare Ash with similar systems and write benchmarks/RESULTS.md
	@.venv-bench/bin/python -m benchmarks

bench-smoke: .venv/.dev  ## run the benchmarks once, small and without other systems
	@$(BIN)/python -m benchmarks --smoke

bench-watch: .venv/.dev  ## measure `ash watch` with 10,000 files; writes docs/importing.md (Linux, 10 minutes)
	@$(BIN)/python -m benchmarks.watching

bench-large: .venv/.dev  ## import 3.8 GB, 69,000 lines and 1,000 images; writes docs/importing.md (20 GB of disk)
	@$(BIN)/python -m benchmarks.large

chaos: .venv/.dev  ## kill processes under load and count losses; writes docs/security.md (6 minutes)
	@$(BIN)/python -m benchmarks.chaos

scale: .venv/.dev  ## measure stores of 10^4 to 10^7 messages; writes docs/scale.md (20 GB of disk)
	@$(BIN)/python -m benchmarks.scale

soak: .venv/.dev  ## mixed load for 15 minutes: memory, open files and latencies; writes docs/security.md
	@$(BIN)/python -m benchmarks.soak

.venv-sbom/.sbom: requirements/sbom.txt
	@$(PYTHON) -m venv .venv-sbom
	@.venv-sbom/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/sbom.txt
	@touch $@

sbom: .venv-sbom/.sbom  ## write sbom.json, the components of the server (CycloneDX)
	@PYTHONWARNINGS=ignore .venv-sbom/bin/cyclonedx-py requirements requirements/server.txt --pyproject pyproject.toml \
		--output-file sbom.json
	@echo "wrote sbom.json"

.venv-docs/.docs: requirements/docs.txt
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/docs.txt
	@touch $@

docs: .venv-docs/.docs  ## build the documentation as a site in build/site, and check its links
	@.venv-docs/bin/python -m tools.site

# `make wire KEEP=FOLDER` keeps the packages, about 800 MB, and uses those that are there.
wire: .venv/.dev  ## compare the newest packages of the vendors with the providers; writes docs/wire.md (needs npm)
	@$(BIN)/python -m tools.wire $(if $(KEEP),--keep "$(KEEP)")

requirements:  ## compile the pinned requirements (needs uv)
	@sh requirements/compile.sh

clean:  ## remove the environments and caches
	rm -rf .venv .venv-agents .venv-bench .venv-docs .venv-sbom build sbom.json node_modules .chromium .mypy_cache .pytest_cache .ruff_cache .hypothesis
