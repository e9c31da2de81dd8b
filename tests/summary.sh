#!/bin/sh
# Runs a command that runs tests and passes its output on. The last lines say how many tests ran,
# how long they took, and how many passed. Exits with the command's code.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP

start=$(date +%s)
# A pipeline exits with the code of its last command, so the first one writes its own to a file.
{
  code=0
  "$@" || code=$?
  echo "$code" >"$folder/code"
} | tee "$folder/output"
seconds=$(($(date +%s) - start))
code=$(cat "$folder/code")

# Of each line `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
counts=$(awk '/^test result: / { passed += $4; failed += $6; ignored += $8 }
  END { print passed + 0, failed + 0, ignored + 0 }' "$folder/output")
# shellcheck disable=SC2086 # three numbers
set -- $counts

took="$((seconds / 60)) min $((seconds % 60)) s"
if [ "$code" = 0 ] || [ "$2" != 0 ]; then
  echo "$(($1 + $2)) tests ran in $took"
  echo "tests: $1 passed, $2 failed, $3 skipped"
else
  echo "$0: exit code $code after $1 tests and $took: a command failed, not a test" >&2
fi
exit "$code"
