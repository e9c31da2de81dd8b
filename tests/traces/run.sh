#!/bin/sh
# Tests that a collector of OpenTelemetry gets the traces of a running service, after the unit tests that
# need the feature `otel`. Arguments go to unittest.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
need python3
tests/traces/build.sh >&2
$cargo test --locked --features otel --lib process::traces
COLLECTOR=$(tests/traces/collector.sh)
RAINDROP=$(realpath "$target/traces/debug/raindrop")
export COLLECTOR RAINDROP
cd tests/traces
exec python3 -B -m unittest "$@"
