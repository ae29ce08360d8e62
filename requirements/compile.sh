#!/bin/sh
# Compiles the pinned requirements from pyproject.toml; needs `uv` (any recent one). Run from the root.
set -eu
compile() {
    out=$1; shift
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
        --no-annotate pyproject.toml "$@" --output-file "requirements/$out.txt"
}
compile server --extra server --extra embedded --extra build
compile dev --extra server --extra embedded --extra build --extra dev --constraint requirements/server.txt
# The peers have an environment of their own: they want older versions of what the server uses.
compile bench --extra server --extra embedded --extra build --extra bench
