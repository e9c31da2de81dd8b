#!/bin/sh
# Checks that the clients in Java, Go and JavaScript are written as google-java-format, gofmt and prettier write
# them; with --write, rewrites them. Python's are checked with its tests. Maven brings Java's formatter, npm
# JavaScript's.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

# The newest one that Java 17 runs.
google_java_format=1.28.0

need_maven
need go node npm git
case ${1:-} in
  '') java=--set-exit-if-changed go=-l js=--check ;;
  --write) java=--replace go=-w js=--write ;;
  *) fail "$1: only --write is allowed" ;;
esac

tools=$(keep google-java-format)
jar=$tools/google-java-format-$google_java_format-all-deps.jar
[ -f "$jar" ] || mvn --batch-mode --no-transfer-progress --quiet \
  org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy "-DoutputDirectory=$tools" \
  -Dartifact=com.google.googlejavaformat:google-java-format:$google_java_format:jar:all-deps
# Its check prints what it would have written.
[ "$java" = --replace ] || java="$java --dry-run"
# shellcheck disable=SC2086
git ls-files -z 'clients/*.java' | xargs -0 java -jar "$jar" $java ||
  fail "google-java-format would write these Java files otherwise: make clients-fmt"
wildcards=$(git grep -n '^import .*\*;' -- 'clients/*.java') &&
  fail "imports name no class: $wildcards"

unformatted=$(gofmt $go clients)
[ -z "$unformatted" ] || fail "gofmt would write these otherwise: make clients-fmt: $unformatted"

(cd clients/js && npm ci --ignore-scripts --silent)
git ls-files -z 'clients/*.js' 'clients/*.ts' 'tests/clients/*.js' 'tests/clients/*.mjs' |
  xargs -0 clients/js/node_modules/.bin/prettier --config clients/.prettierrc.json --log-level warn $js ||
  fail "prettier would write these JavaScript files otherwise: make clients-fmt"
