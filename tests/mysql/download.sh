#!/bin/sh
# Downloads MySQL proper, which Debian has in its unstable branch only, with everything that it needs,
# and prints its folder among the build's files. The system stays as it is.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep mysql)
root=$kept/root

# From the mirror that this machine uses.
download() {
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    sed -n 's/^Debian Debian //p' | head -n 1)
  [ -n "$mirror" ] || fail "no Debian mirror is known: it needs Debian, and apt-get update"
  apt=$kept/apt
  rm -rf "$apt" "$root.new"
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$root.new"
  : >"$apt/status"
  keys=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "deb [signed-by=$keys] $mirror sid main" >"$apt/sources.list"
  set -- -qq -o "Dir::State=$apt/state" -o "Dir::State::status=$apt/status" \
    -o "Dir::Cache=$apt/cache" -o "Dir::Etc::SourceList=$apt/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
    -o Debug::NoLocking=1 -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none
  apt-get "$@" update >&2
  apt-get "$@" install -y --download-only --no-install-recommends mysql-server-core >&2
  for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$root.new"
  done
  rm -rf "$apt"
  mv "$root.new" "$root"
}

[ -d "$root" ] || download
echo "$root"
