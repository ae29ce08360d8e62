#!/bin/sh
# Compile the pinned requirements from pyproject.toml. Needs a recent `uv`; run from the root.
set -eu
compile() {
    out=$1; shift
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
        --no-annotate "$@" --output-file "requirements/$out.txt"
}
compile build --group build
compile server pyproject.toml --excludes requirements/unused.txt
compile dev pyproject.toml --extra otel --extra dev --constraint requirements/server.txt
# The benchmark peers need older versions of the server's dependencies and have a separate environment.
compile bench pyproject.toml --extra bench
compile openai-agents packages/ash-parser/pyproject.toml --extra client --group pyproject.toml:openai-agents
compile sbom --group sbom
compile docs --group docs
