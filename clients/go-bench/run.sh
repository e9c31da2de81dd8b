#!/bin/sh
# Prints what an ID of the client for Go costs beside other generators, and how many requests a rate of
# IDs takes. RAINDROP names the service; by default it is built, optimised.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
command -v go >/dev/null || fail "needs go"
if [ -z "${RAINDROP:-}" ]; then
  $cargo build --locked --release
  RAINDROP=$(cd "$target/release" && pwd)/raindrop
fi
export RAINDROP
cd clients/go-bench
go vet ./...
exec go run .
