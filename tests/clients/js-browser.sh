#!/bin/sh
# Tests the JavaScript client in Chromium against the real service. RAINDROP names its binary. Debian's
# package brings the browser; the program that drives it comes from npm.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need node npm
need_chromium
need_service

(cd clients/js && npm ci --ignore-scripts --silent && npm run --silent build)

cd tests/clients/js-browser
npm ci --ignore-scripts --silent
exec node --test "$@" ./*.test.js
