#!/bin/sh
# Lint and type-check the viewer's JavaScript, with the tools pinned in package.json.
set -eu
cd "$(dirname "$0")/.."

if ! command -v npm > /dev/null; then
    echo "JavaScript of the viewer not checked: node is not installed" >&2
    exit 0
fi
installed=node_modules/package.json
if ! cmp -s package.json "$installed"; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json "$installed"
fi

node_modules/.bin/oxlint --quiet ash_server/viewer tests/viewer

# TypeScript also checks the vendored files that modules import; their errors are dropped, with their continuation lines.
errors=$(node_modules/.bin/tsc --project tsconfig.json --pretty false |
    awk '/^[^ ]/ { isVendored = /^ash_server\/viewer\/vendor\// } !isVendored')
if [ -n "$errors" ]; then
    echo "$errors" >&2
    exit 1
fi
