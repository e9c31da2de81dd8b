#!/bin/sh
# Prints CONTRIBUTING.md's table of steps with the seconds of the last run of tests/steps.bash; with
# UPDATE=1 rewrites the table there. With the argument `check` and names of steps it only fails unless
# each of them has a row.
set -eu

cd "$(dirname "$0")/.."
. tests/functions.sh
results=$target/steps.tsv
page=CONTRIBUTING.md

if [ "${1:-}" = check ]; then
  shift
  for step; do
    grep -q "^| \`$step\` | .* | .* | .* |\$" $page ||
      fail "$page has no row for the step $step: | \`$step\` | what it finds | seconds | processor seconds |"
  done
  exit 0
fi

[ -s "$results" ] || fail "there is no result of a run: make ci writes $results"

# Copies the page with the seconds of each step that passed.
rewrite() {
  awk -F '\t' '
    NR == FNR { if ($4 == 0) { seconds[$1] = $2; busy[$1] = $3 } next }
    /^\| `[a-z-]+` \| .* \| .* \| .* \|$/ {
      parts = split($0, cell, / \| /)
      step = cell[1]
      gsub(/[|` ]/, "", step)
      if (parts == 4 && step in seconds)
        $0 = cell[1] " | " cell[2] " | " seconds[step] " | " busy[step] " |"
    }
    { print }' "$results" $page
}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
rewrite >"$new"
if [ -n "${UPDATE:-}" ]; then
  cat "$new" >$page
else
  sed -n '/^| step | /,/^$/p' "$new"
fi
