#!/bin/sh
# Tests the clients: each with the tools of its language, and all of them by the conformance suite
# against the real service. Java and Maven are installed by Debian's packages; Go and Node must be there.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need_maven
need go node npm

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Go's tests run beside JavaScript's, because both wait a lot. Java's have the machine for themselves.
(
  cd clients/go
  unformatted=$(gofmt -l .)
  [ -z "$unformatted" ] || fail "not as gofmt writes it: $unformatted"
  go vet ./...
  go test -race ./...
) >"$log" 2>&1 &
go=$!

echo "== JavaScript"
(
  cd clients/js
  npm ci --ignore-scripts --no-audit --no-fund
  npm test
)

echo "== Go"
wait $go || failed=1
cat "$log"
[ -z "${failed:-}" ] || fail "Go's tests failed"

echo "== Java"
(cd clients/java && mvn --batch-mode --no-transfer-progress test)

echo "== Conformance"
clients/conformance/run.sh self-test go java js
