#!/bin/sh
# Install the packages pinned in package.json, unless they are installed.
set -eu
cd "$(dirname "$0")/.."

installed=node_modules/package.json
if ! cmp -s package.json "$installed"; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json "$installed"
fi
