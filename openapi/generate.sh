#!/bin/sh
# Writes openapi.json from the routes, and ash.d.ts from it where node is installed.
set -eu
cd "$(dirname "$0")"
folder=$(pwd)

TYPESCRIPT=openapi-typescript@7.13.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd ..
python=${PYTHON:-.venv/bin/python}
"$python" -c 'from ash_server.app import openapi_json; print(openapi_json(), end="")' > "$work/openapi.json"
hash=$("$python" -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$work/openapi.json")
cp "$work/openapi.json" "$folder/openapi.json"

if ! command -v npx > /dev/null; then
    echo "openapi/openapi.json is written; openapi/ash.d.ts needs node" >&2
    exit
fi
cd "$work"
npx --yes "$TYPESCRIPT" openapi.json --output types.d.ts > npx.log 2>&1 || { cat npx.log >&2; exit 1; }
{
    echo "// Made by openapi/generate.sh with $TYPESCRIPT from the openapi.json whose sha256 is $hash"
    cat types.d.ts
} > "$folder/ash.d.ts"
