#!/bin/sh
# Prints what an ID costs with the JavaScript client and with others, and how many requests a process
# sends. RAINDROP names the service's binary. ROUNDS and SECONDS make it longer or shorter.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

for program in node npm; do
  command -v $program >/dev/null || fail "needs $program"
done
: "${RAINDROP:=$target/debug/raindrop}"
RAINDROP=$(realpath "$RAINDROP")
[ -x "$RAINDROP" ] || fail "needs the service's binary: set RAINDROP"
export RAINDROP

cd clients/js-bench
npm ci --ignore-scripts --silent
echo "JavaScript: Node $(node --version), $(nproc) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
echo
node cost.js
echo
node requests.js
