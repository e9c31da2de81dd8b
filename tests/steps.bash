#!/usr/bin/env bash
# Runs targets of make as steps, one after another; targets joined by `+` run side by side. Prints what
# a step printed, its seconds and its tests, and stops after a step that fails. A table of the steps
# closes the run. Exits with 1 if a step failed.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Each target has a process group, which an interrupt ends as a whole; what it printed so far is shown.
set -m
# shellcheck disable=SC2329 # the trap calls it
interrupt() {
  local target
  for target in $(jobs -p); do kill -- "-$target" 2>/dev/null || true; done
  for target in "${targets[@]}"; do
    echo "=== $target was interrupted:"
    cat "$folder/$target" 2>/dev/null || true
  done
  exit 1
}
trap interrupt INT TERM HUP

# Prints the tests of the output $1 that passed, failed and were skipped: of cargo's lines
# `test result: ok. 12 passed; 0 failed; 1 ignored; …`, and of Python's `Ran 12 tests in 3.4s` with
# `OK` or `FAILED (failures=1, errors=2, skipped=3)`.
count_tests() {
  awk '
    function number(of) {
      return match($0, of "=[0-9]+") ? substr($0, RSTART + length(of) + 1, RLENGTH - length(of) - 1) : 0
    }
    /^test result: / { passed += $4; failed += $6; skipped += $8 }
    /^Ran [0-9]+ tests? in / { ran = $2 }
    ran && /^(OK|FAILED)/ {
      bad = number("failures") + number("errors"); left = number("skipped")
      passed += ran - bad - left; failed += bad; skipped += left; ran = 0
    }
    END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

run() {
  local begun=$SECONDS code=0
  echo "0 137" >"$folder/$1.result"
  "${MAKE:-make}" --no-print-directory "$1" >"$folder/$1" 2>&1 </dev/null || code=$?
  echo "$((SECONDS - begun)) $code" >"$folder/$1.result"
}

passed=0 failed=0 skipped=0 status=0 targets=()
table=$(printf '%-18s %7s %6s' step seconds tests)
for step; do
  IFS=+ read -ra targets <<<"$step"
  for target in "${targets[@]}"; do
    echo "=== $target begins"
    run "$target" &
  done
  wait
  for target in "${targets[@]}"; do
    read -r seconds code <"$folder/$target.result"
    read -r good bad left < <(count_tests "$folder/$target")
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
    result=passed
    if [ "$code" != 0 ]; then
      result="FAILED with exit code $code" status=1
    fi
    echo "=== $target:"
    cat "$folder/$target"
    echo "=== $target $result: $seconds s, $((good + bad)) tests"
    table+=$'\n'$(printf '%-18s %7d %6d  %s' "$target" "$seconds" $((good + bad)) "$result")
  done
  [ "$status" = 0 ] || break
done

printf '\n%s\n' "$table"
echo "$((passed + failed)) tests ran in $((SECONDS / 60)) min $((SECONDS % 60)) s"
[ "$status" = 0 ] || [ "$failed" != 0 ] || echo "a command failed, not a test" >&2
echo "tests: $passed passed, $failed failed, $skipped skipped"
exit "$status"
