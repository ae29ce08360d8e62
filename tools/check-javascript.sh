#!/bin/sh
# Lint and type-check the viewer's JavaScript and the TypeScript client, with the tools pinned in package.json.
set -eu
cd "$(dirname "$0")/.."

if ! command -v npm > /dev/null; then
    echo "JavaScript and TypeScript not checked: node is not installed" >&2
    exit 0
fi
sh tools/install-npm-packages.sh

node_modules/.bin/oxlint --quiet ash_server/viewer tests/viewer clients/typescript/src
node_modules/.bin/tsc --project clients/typescript --noEmit

# TypeScript also checks the vendored files that modules import; their errors are dropped, with their continuation lines.
errors=$(node_modules/.bin/tsc --project tsconfig.json --pretty false |
    awk '/^[^ ]/ { isVendored = /^ash_server\/viewer\/vendor\// } !isVendored')
if [ -n "$errors" ]; then
    echo "$errors" >&2
    exit 1
fi
