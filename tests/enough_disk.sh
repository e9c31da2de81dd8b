#!/bin/sh
# Fails unless the file system of the build's folder has $1 GB for it: free, or taken by the folder already.
set -eu

cd "$(dirname "$0")/.."
. tests/functions.sh
wanted=$1
mkdir -p "$target"

# Kilobytes; POSIX's df prints the free ones in the fourth column.
free=$(df -Pk "$target" | awk 'NR == 2 { print $4 }')
taken=$(du -sk "$target" | cut -f 1)
[ $(((free + taken) / 1000000)) -ge "$wanted" ] ||
  fail "$target may grow to $wanted GB, holds $((taken / 1000000)) GB, and its file system has" \
    "$((free / 1000000)) GB left: free some, or name a folder on another one in CARGO_TARGET_DIR"
