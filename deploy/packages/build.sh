#!/bin/sh
# Packs a program that is built already, for a machine without a compiler: an archive, a Debian
# package and an rpm, with checksums. Installs cargo-deb and cargo-generate-rpm if need be.
#
#   deploy/packages/build.sh PROGRAM TARGET
#
# PROGRAM must run here: it prints its own completions and manual pages. Results are in
# target/distribution; of them the archive alone needs neither dpkg nor rpm.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
binary=$(realpath "$1") triple=$2
need python3 dpkg-deb sha256sum
# Optimised: they compress.
export CARGO_PROFILE_DEV_OPT_LEVEL=2
deb=$(cargo_install cargo-deb 3.8.0 "$(cache cargo-deb)")
rpm=$(cargo_install cargo-generate-rpm 0.21.1 "$(cache cargo-generate-rpm)")

# Where Cargo.toml expects them, wherever cargo builds.
results=target/distribution files=target/distribution/files
version=$("$binary" version --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')
name=raindrop-$version-$triple
rm -rf "$results"
mkdir -p "$files/completions" "$files/man"
install --strip "$binary" "$files/raindrop"
for shell in bash zsh fish powershell elvish; do
  "$binary" completions "$shell" >"$files/completions/raindrop.$shell"
done
"$binary" man --out "$files/man"
deploy/packages/licenses.py "$triple" >"$files/licenses.txt"

cp -R "$files" "$results/$name"
cp LICENSE README.md CHANGELOG.md .env.example deploy/packages/raindrop.toml deploy/systemd/raindrop.service "$results/$name"
tar --create --gzip --owner=0 --group=0 --directory "$results" --file "$results/$name.tar.gz" "$name"
rm -rf "${results:?}/$name"

"$deb" --quiet --no-build --no-strip --target "$triple" --output "$results/"
# A static program needs no library, and every distribution with rpm has the C library of another.
"$rpm" --auto-req disabled --target "$triple" --output "$results/"
cd "$results"
sha256sum -- *.tar.gz *.deb *.rpm >SHA256SUMS
ls -l -- *.tar.gz *.deb *.rpm
