#!/bin/sh
# Tests the JavaScript client in Chromium against the real service. RAINDROP names its binary. Debian's
# package brings the browser; the program that drives it comes from npm.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

for program in node npm; do
  command -v $program >/dev/null || fail "needs $program"
done
find_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
CHROMIUM=$(find_chromium) || { apt_install chromium && CHROMIUM=$(find_chromium); } ||
  fail "needs chromium (Debian: chromium)"
export CHROMIUM

cd tests/clients/js-browser
npm ci --ignore-scripts --silent
exec node --test "$@" ./*.test.js
