#!/bin/sh
# Holds the clients to the contract: builds the service and the drivers of the languages that the arguments
# name (by default all that there are), and runs every scenario with each. `self-test` shows, with a client
# made for that, that the scenarios notice each way to be wrong. RAINDROP names a service that is built.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
python=$(keep conformance)/python
tests/python/run.sh "$python" clients/conformance/requirements.txt

need_service
exec "$python/bin/python" -B clients/conformance/run.py "$@"
