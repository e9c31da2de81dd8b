#!/bin/sh
# Prints what an ID of the client for Go costs beside other generators, and how many requests a rate of
# IDs takes. RAINDROP names the service's binary.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
need go
need_service
cd clients/go-bench
go vet ./...
exec go run .
