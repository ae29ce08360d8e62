#!/bin/sh
# Check openapi/openapi.json with two validators: pinned versions, without a lock file.
set -eu
cd "$(dirname "$0")/.."

REDOCLY=@redocly/cli@2.77.0
SPECTRAL=@stoplight/spectral-cli@6.16.3

if ! command -v npx > /dev/null; then
    echo "openapi/openapi.json not checked: node is not installed" >&2
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'extends: ["spectral:oas"]' > "$work/rules.yaml"

REDOCLY_TELEMETRY=off npx --yes "$REDOCLY" lint --format=stylish openapi/openapi.json > "$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
npx --yes "$SPECTRAL" lint --fail-severity=error --ruleset "$work/rules.yaml" openapi/openapi.json > "$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
