#!/bin/sh
# Tests the chart, the alerts and the dashboard. What it needs and cannot find it installs: helm by
# Go, Prometheus by Debian's package, Kubernetes' schemas by a Python package; into the build's folder.
# UPDATE=1 rewrites the golden files and the chart's README; read the difference before it is kept.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep chart)
schemas=kubernetes-validate==1.37.0
helm=$(go_install helm helm.sh/helm/v3/cmd/helm v3.22.0 "$kept")

command -v promtool >/dev/null && command -v prometheus >/dev/null || apt_install prometheus ||
  fail "needs prometheus and promtool (Debian: prometheus)"
command -v curl >/dev/null || apt_install curl || fail "needs curl"
command -v openssl >/dev/null || apt_install openssl || fail "needs openssl"

python=$kept/python
python_install "$python" "$schemas"

# As the tests build it, so that after them nothing is compiled again.
$cargo test --locked --no-run --test http
binary=$target/debug/raindrop

HELM=$helm RAINDROP=$(cd "$(dirname "$binary")" && pwd)/raindrop \
  exec "$python/bin/python" -B -m unittest discover --start-directory tests/chart --pattern '*_test.py' "$@"
