#!/usr/bin/env bash
# Runs targets of make as steps, several at a time: as many as the processors can take by what each step
# needs. Prints what a step printed when it ends, its seconds and its tests. After a step that fails no
# other one begins. A table of the steps closes the run; with --table before them it stands there as in
# CONTRIBUTING.md, too. Exits with 1 if a step failed or could not begin.
set -euo pipefail
cd "$(dirname "$0")/.."

# Sets three variables for the step $1. `load` is the tenths of a processor that the step keeps busy on
# average, from its row in the table of a run. `lock` names a thing that two steps cannot use at a time;
# `-` means none. `after` lists the steps that come before it, if they are part of the run.
#
# Cargo holds a lock on each profile's folder while it compiles, for minutes. Whatever compiles in one
# folder therefore runs one after another, and before the steps that only ask cargo for what is built.
# The steps with the lock `clients` write the same folders of npm and Maven. The scenarios of the clients
# have a clock, which they fall behind beside the faults or the console.
needs() {
  lock=- after=
  case $1 in
    # In `make check` after the other tests have asked cargo, of which this one is the shortest.
    clippy) load=10 lock=debug after="check-build embedded-test" ;;
    model-lint | doc | check-build | traces-build) load=17 lock=debug ;;
    test-build) load=17 lock=debug after="clippy model-lint doc traces-build" ;;
    soak-build) load=17 lock=soak after=format ;;
    unit-test) load=9 after="check-build test-build" ;;
    doc-test) load=10 after=test-build ;;
    http-test) load=6 after="check-build test-build" ;;
    embedded-test) load=5 after=check-build ;;
    store-test) load=5 after=test-build ;;
    fault-test) load=12 after=test-build ;;
    simulation) load=17 after=soak-build ;;
    protocol-test) load=15 after=soak-build ;;
    loom | explorer) load=10 after=soak-build ;;
    kubernetes-test) load=7 after="kubernetes-build test-build" ;;
    chart-test) load=7 after="kubernetes-build test-build" ;;
    clients-test) load=9 lock=clients after="test-build fault-test console-test" ;;
    integrations-test) load=8 lock=clients after=test-build ;;
    api-test | console-test | traces-test) load=8 after=test-build ;;
    tutorial-test) load=3 after=test-build ;;
    kubernetes-build) load=15 ;;
    deny | format | book) load=3 ;;
    *) load=10 ;;
  esac
}

as_page=
if [ "${1:-}" = --table ]; then
  shift
  as_page=yes
  tests/steps_table.sh check "$@"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Each step has a process group, which an interrupt ends as a whole; the output so far is shown.
set -m
running=()
# shellcheck disable=SC2329 # the trap calls it
interrupt() {
  local step
  for step in ${running[@]+"${running[@]}"}; do
    kill -- "-$(cat "$folder/$step.pid")" 2>/dev/null || true
  done
  for step in ${running[@]+"${running[@]}"}; do
    echo "=== $step was interrupted:"
    cat "$folder/$step" 2>/dev/null || true
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

# Runs the step $1, and leaves its exit code, its seconds and its processor seconds in a file. The latter
# are those of the processes that it waited for; servers that it left to themselves are not among them.
run() {
  local begun=$SECONDS code=0 TIMEFORMAT='%U %S'
  { time "${MAKE:-make}" --no-print-directory "$1" >"$folder/$1" 2>&1 </dev/null; } \
    2>"$folder/$1.times" || code=$?
  awk -v code="$code" -v seconds="$((SECONDS - begun))" \
    '{ printf "%d %d %.0f\n", code, seconds, $1 + $2 }' "$folder/$1.times" >"$folder/$1.part"
  mv "$folder/$1.part" "$folder/$1.result"
  echo >&3
}

begin() {
  echo "=== $1 begins"
  run "$1" &
  echo $! >"$folder/$1.pid"
  running+=("$1")
}

# Whether $1 is one of the words after it.
is_among() {
  local word wanted=$1
  shift
  for word; do [ "$word" != "$wanted" ] || return 0; done
  return 1
}

# Whether the step $1 can begin now.
can_begin() {
  local load lock after used=0 step wanted taken locks=()
  for step in ${running[@]+"${running[@]}"}; do
    needs "$step"
    used=$((used + load)) locks+=("$lock")
  done
  needs "$1"
  wanted=$load taken=$lock
  for step in $after; do
    ! is_among "$step" ${unfinished[@]+"${unfinished[@]}"} || return 1
  done
  [ "$taken" = - ] || ! is_among "$taken" ${locks[@]+"${locks[@]}"} || return 1
  # A step that needs more than there is runs alone.
  [ "$used" = 0 ] || [ $((used + wanted)) -le "$bound" ]
}

# Prints what the step $1 printed, and adds its row to the table.
finish() {
  local code=137 seconds=0 busy=0 good bad left result=passed
  [ ! -e "$folder/$1.result" ] || read -r code seconds busy <"$folder/$1.result"
  read -r good bad left < <(count_tests "$folder/$1")
  passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left)) cores=$((cores + busy))
  if [ "$code" != 0 ]; then
    result="FAILED with exit code $code" status=1
    faulty+=("$1")
  fi
  echo "=== $1:"
  cat "$folder/$1"
  echo "=== $1 $result: $seconds s, $busy s of processors, $((good + bad)) tests"
  table+=$'\n'$(printf '%-18s %7d %9d %6d  %s' "$1" "$seconds" "$busy" $((good + bad)) "$result")
  printf '%s\t%d\t%d\t%d\n' "$1" "$seconds" "$busy" "$code" >>"$results"
}

# Finishes the running steps that have ended.
collect() {
  local step left=()
  for step in ${running[@]+"${running[@]}"}; do
    # No process writes the result of a step whose whole group was killed.
    if [ -e "$folder/$step.result" ] || ! kill -0 "$(cat "$folder/$step.pid")" 2>/dev/null; then
      finish "$step"
      forget "$step"
    else
      left+=("$step")
    fi
  done
  running=(${left[@]+"${left[@]}"})
}

# Takes the step $1 out of those that have not finished.
forget() {
  local step left=()
  for step in ${unfinished[@]+"${unfinished[@]}"}; do [ "$step" = "$1" ] || left+=("$step"); done
  unfinished=(${left[@]+"${left[@]}"})
}

# Begins the steps that can begin, in the order in which they were named.
begin_some() {
  local step left=()
  for step in ${waiting[@]+"${waiting[@]}"}; do
    if [ "$status" = 0 ] && can_begin "$step"; then begin "$step"; else left+=("$step"); fi
  done
  waiting=(${left[@]+"${left[@]}"})
}

# Tenths of a processor. A little more than there are: no step is busy all the time.
# Those that this process may use, which only nproc knows.
bound=$(($(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) * 10 + 5))
passed=0 failed=0 skipped=0 cores=0 status=0 faulty=()
table=$(printf '%-18s %7s %9s %6s' step seconds processor tests)
results=$folder/results

# Each step that ends writes a line, which wakes the loop below; a read of it that takes a second tells
# nothing and looks for steps that were killed.
mkfifo "$folder/ended"
exec 3<>"$folder/ended"

waiting=("$@") unfinished=("$@")
begin_some
while [ ${#running[@]} -gt 0 ]; do
  read -r -t 1 <&3 || true
  collect
  begin_some
done

unmet=
if [ "$status" = 0 ] && [ ${#waiting[@]} -gt 0 ]; then unmet=yes status=1; fi

printf '\n%s\n' "$table"
printf 'total\t%d\t%d\t%d\n' "$SECONDS" "$cores" "$status" >>"$results"
if [ "$as_page" ]; then
  mkdir -p "${CARGO_TARGET_DIR:-target}"
  cp "$results" "${CARGO_TARGET_DIR:-target}/steps.tsv"
  echo
  tests/steps_table.sh
fi
[ ${#waiting[@]} = 0 ] || echo "not begun: ${waiting[*]}"
[ ${#faulty[@]} = 0 ] || echo "FAILED: ${faulty[*]}"
echo "$((passed + failed)) tests ran in $((SECONDS / 60)) min $((SECONDS % 60)) s, $cores s of processors"
[ -z "$unmet" ] || echo "the steps that were not begun come after each other: see needs in tests/steps.bash" >&2
[ ${#faulty[@]} = 0 ] || [ "$failed" != 0 ] || echo "a command failed, not a test" >&2
echo "tests: $passed passed, $failed failed, $skipped skipped"
exit "$status"
