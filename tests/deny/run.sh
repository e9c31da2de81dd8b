#!/bin/sh
# Advisories, licences, bans and sources of every dependency, by deny.toml. Finds cargo-deny on the
# path, or builds it.
#
# git fetches the database of advisories; git's url.<mirror>.insteadOf configures a mirror. If git
# cannot fetch it, the script uses a copy of the last 14 days. Without a copy it does not check
# advisories, and says so at the end; with ADVISORIES=required it fails instead.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
deny=$(cargo_install cargo-deny 0.20.2 "$(cache deny)")

# Those of other platforms, too, which no build here downloads.
$cargo fetch --quiet --locked || fail "the dependencies cannot be downloaded"
"$deny" --offline --locked --workspace --all-features check bans licenses sources

if ! timeout 300 "$deny" fetch db; then
  # The date of the copy's last commit, unless that is older than 14 days.
  dated=
  for copy in "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/advisory-db-*/; do
    dated=$(git -C "$copy" log -1 --since=14.days --format=%cs 2>/dev/null) || dated=
  done
  if [ -z "$dated" ]; then
    [ "${ADVISORIES:-}" != required ] || fail "advisories cannot be checked: their database cannot be fetched"
    echo "$0: ADVISORIES WERE NOT CHECKED: their database, https://github.com/RustSec/advisory-db," \
      "cannot be fetched, and there is no copy of the last 14 days" >&2
    exit 0
  fi
  echo "$0: checking with a copy of the advisories of $dated" >&2
fi
exec "$deny" --offline --locked --workspace --all-features check advisories
