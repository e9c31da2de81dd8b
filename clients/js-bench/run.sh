#!/bin/sh
# Prints what an ID costs with the JavaScript client and with others, and how many requests a process
# sends. RAINDROP names the service's binary. ROUNDS and SECONDS make it longer or shorter.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need node npm
need_service

(cd clients/js && npm ci --ignore-scripts --silent && npm run --silent build)

cd clients/js-bench
npm ci --ignore-scripts --silent
echo "JavaScript: Node $(node --version), $(nproc) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
echo
node cost.js
echo
node requests.js
