#!/bin/sh
# Builds etcd, kube-apiserver and kube-controller-manager from their Go modules: some minutes, once.
# Prints the folder that holds them.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
module=tests/kubernetes/servers
version=$(sed -n 's/^\tk8s.io\/kubernetes v//p' $module/go.mod)
programs=$(cache kubernetes)/$version-$(cat $module/go.sum $module/etcd/main.go "$0" | cksum | tr ' ' -)

if [ ! -d "$programs" ]; then
  command -v go >/dev/null || fail "needs Go to build Kubernetes' API server"
  echo "building Kubernetes $version; some minutes, once" >&2
  fresh=$(mktemp -d "$programs.XXXXXX")
  # Without a version helm takes the server for v0.0.0 and refuses charts.
  names=k8s.io/component-base/version
  minor=${version#*.}
  flags="-s -w -X $names.gitVersion=v$version -X $names.gitMajor=${version%%.*} -X $names.gitMinor=${minor%%.*}"
  # Not stamped, so that another folder's build finds the same parts in Go's cache.
  (cd $module && go build -buildvcs=false -trimpath -ldflags "$flags" -o "$fresh/" \
    ./etcd k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager) >&2 ||
    fail "Kubernetes cannot be built"
  # In one step; a process that was faster has built the same files.
  chmod 755 "$fresh"
  mv -T "$fresh" "$programs" 2>/dev/null || rm -rf "$fresh"
fi
echo "$programs"
