#!/bin/sh
# Tests the JSON schema of the configuration, and a running service against its own API document.
# Schemathesis makes right and wrong requests from the document, the same in every run. pip installs schemathesis into the build's folder, where
# its report is found afterwards. Arguments go to schemathesis.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep api)
tests=$PWD/tests/api

python=$kept/python
tests/python/run.sh "$python" tests/api/requirements.txt

# As the tests build it, so that after them nothing is compiled again.
$cargo test --locked --no-run --test http
raindrop=$(cd "$target/debug" && pwd)/raindrop

RAINDROP=$raindrop "$python/bin/python" -B -m unittest discover --start-directory tests/api --pattern '*_test.py'

folder=$(mktemp -d)
report=$kept/report
rm -rf "$report"
mkdir "$report"
: >"$report/raindrop.log"
cd "$folder"
"$raindrop" serve --config "$tests/raindrop.toml" >"$report/raindrop.log" 2>&1 &
service=$!
# shellcheck disable=SC2064
trap "kill $service 2>/dev/null || true; wait $service 2>/dev/null || true; rm -rf '$folder'" EXIT

patience=300
address() { sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$report/raindrop.log"; }
is_ready() { [ -n "$(address)" ] && "$raindrop" health --ready --url "$(address)" 2>/dev/null; }
until is_ready; do
  kill -0 "$service" 2>/dev/null && [ "$patience" -gt 0 ] ||
    fail "the service is not ready: $(cat "$report/raindrop.log")"
  patience=$((patience - 1))
  sleep 0.1
done

# From a file, because an address from which the document is read is not tried.
"$python/bin/python" -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())' \
  "$(address)/openapi.json" >"$report/openapi.json"

SCHEMATHESIS_HOOKS=$tests/hooks.py RAINDROP_SEEN=$report/seen.json \
  "$python/bin/schemathesis" --config-file "$tests/schemathesis.toml" \
  run "$report/openapi.json" --url "$(address)" --checks all --report junit --report-dir "$report" "$@"
"$python/bin/python" -B "$tests/seen.py" "$report/openapi.json" "$report/seen.json"
