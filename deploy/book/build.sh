#!/bin/sh
# Builds the book of docs/ into target/book, and checks its links. Finds mdBook on the path, or builds it.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
need python3
# Without its server.
mdbook=$(cargo_install mdbook 0.5.4 "$(cache mdbook)" --no-default-features --features search)

book=$(keep book)
"$mdbook" build --dest-dir "$book"
python3 deploy/book/check.py "$book"
echo "$book/index.html"
