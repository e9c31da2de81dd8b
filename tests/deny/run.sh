#!/bin/sh
# Licences, bans and sources of every dependency, by deny.toml: what cargo-deny checks without a
# network. Finds cargo-deny on the path, or builds it into the build's folder. Advisories need their
# database, which CI must not depend on: `cargo deny check advisories` where there is a network.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/deny"
kept=$(cd "$target/deny" && pwd)

version=0.20.2

deny=$(command -v cargo-deny || echo "$kept/$version/bin/cargo-deny")
if [ ! -x "$deny" ]; then
  echo "building cargo-deny $version; two minutes, once" >&2
  # Without optimisation: it is built for longer than it ever runs.
  CARGO_TARGET_DIR=$kept/build CARGO_PROFILE_DEV_DEBUG=0 $cargo install --quiet --debug --locked \
    --root "$kept/$version" "cargo-deny@$version" || fail "cargo-deny cannot be built"
  rm -rf "$kept/build"
fi

# Those of other platforms, too, which no build here downloads.
$cargo fetch --quiet --locked || fail "the dependencies cannot be downloaded"
exec "$deny" --offline --locked check bans licenses sources
