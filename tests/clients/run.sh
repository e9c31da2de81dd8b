#!/bin/sh
# Tests each client with the tools of its language, and all of them by the conformance suite against
# the real service. Debian's packages install Java and Maven, and pip the tools that check Python; Go, Node and
# Python must be there.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need_maven
need go node npm openssl

echo "== Format"
tests/clients/format.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Go's tests run beside JavaScript's, because both wait a lot. Java's have the machine for themselves.
(
  cd clients/go
  go vet ./...
  go test -race ./...
) >"$log" 2>&1 &
go=$!

echo "== JavaScript"
(
  cd clients/js
  npm test
)

echo "== Python"
python=$(keep python-client)
tests/python/run.sh "$python" clients/python/requirements.txt
(
  cd clients/python
  "$python/bin/ruff" format --check --config pyproject.toml . ../python-bench
  "$python/bin/ruff" check .
  "$python/bin/mypy" src tests conformance
  # The tests need no packages, so they run with every version that is there.
  for one in "$python/bin/python" python3.10 python3.12 python3.13 python3.14 "${PYENV_ROOT:-none}"/versions/3.1[0-9].*/bin/python; do
    "$one" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue
    echo "-- $("$one" --version)"
    PYTHONPATH=src "$one" -B -m unittest discover --start-directory tests --top-level-directory .
  done
)

echo "== Go"
wait $go || failed=1
cat "$log"
[ -z "${failed:-}" ] || fail "Go's tests failed"

echo "== Java"
(cd clients/java && mvn --batch-mode --no-transfer-progress test)

echo "== Conformance"
clients/conformance/run.sh self-test go java js python python-asyncio
