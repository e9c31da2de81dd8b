#!/bin/sh
# Builds what the tests of traces run: a collector, and unit tests and the service with the feature `otel`.
#
# The service is built among what the other tests build and with the same features of its dependencies,
# which an example brings in, so that little is compiled anew. The program itself goes into a folder of
# its own, so that no other step finds it.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
tests/traces/collector.sh
$cargo test --locked --features otel --lib --no-run
CARGO_BUILD_BUILD_DIR=$target $cargo build --locked --features otel --bin raindrop \
  --example own_service --target-dir "$target/traces"
