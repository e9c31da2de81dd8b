#!/bin/sh
# Runs the unit tests $1 of one mutant: the quick ones first, and no further than the first failure.
# A mutant that keeps the tests from ending fails as well.
set -eu

# A mutant may ask for memory without end. dash and bash have this limit.
# shellcheck disable=SC3045
ulimit -v 8000000

output=$(mktemp -u)
mkfifo "$output"
trap 'rm -f "$output"' EXIT

run() {
  within=$1
  shift
  timeout --kill-after=1 "$within" "$@" >"$output" 2>&1 &
  code=0
  awk '{ print; fflush() } / \.\.\. FAILED$/ { exit } /^test result: ok/ { ok = 1; exit }
       END { exit !ok }' <"$output" || code=$?
  kill $! 2>/dev/null || true
  return "$code"
}

# Two seconds, without what has nothing to do with what is changed; then seven more.
run 40 "$1" --skip tests::explorer --skip tests::crowd --skip encoding:: --skip layout::spec \
  --skip preset:: --skip worker_id::
[ -n "${QUICK:-}" ] || run 90 "$1" tests::explorer tests::crowd
