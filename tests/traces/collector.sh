#!/bin/sh
# Builds a collector of OpenTelemetry from its Go modules: some minutes, once. Prints its path.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
module=tests/traces/collector
version=$(sed -n 's/^\tgo.opentelemetry.io\/collector\/otelcol v//p' $module/go.mod)
collector=$(cache otelcol)/$version-$(cat $module/go.sum $module/main.go "$0" | cksum | tr ' ' -)

if [ ! -x "$collector" ]; then
  command -v go >/dev/null || fail "needs Go to build a collector of OpenTelemetry"
  echo "building the collector $version; some minutes, once" >&2
  fresh=$(mktemp "$collector.XXXXXX")
  (cd $module && go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$fresh" .) >&2 ||
    fail "the collector cannot be built"
  # In one step; a process that was faster has built the same file.
  chmod 755 "$fresh"
  mv -T "$fresh" "$collector"
fi
echo "$collector"
