#!/bin/sh
# Licences, bans and sources of every dependency, by deny.toml: what cargo-deny checks without a
# network. Finds cargo-deny on the path, or builds it into the build's folder. Advisories need their
# database, which CI must not depend on: `cargo deny check advisories` where there is a network.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
deny=$(cargo_install cargo-deny 0.20.2 "$(keep deny)")

# Those of other platforms, too, which no build here downloads.
$cargo fetch --quiet --locked || fail "the dependencies cannot be downloaded"
exec "$deny" --offline --locked check bans licenses sources
