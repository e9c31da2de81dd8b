#!/bin/sh
# Prints what an ID costs with the client for Python and with others, and how many requests a process sends.
# RAINDROP names the service's binary. ROUNDS and SECONDS make it longer or shorter.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need python3
need_service
echo "$(python3 --version), $(nproc) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
echo
export PYTHONPATH=clients/python:clients/python/src
exec python3 -B clients/python-bench/bench.py
