#!/bin/sh
# Makes the virtual environment $1 of the Python packages that the file $2 names, unless it is there. Each
# must have a hash of that file, and is a wheel: a build would download other packages, without hashes.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
[ $# = 2 ] || fail "needs a folder and a file of requirements"

! cmp -s "$2" "$1/requirements.txt" || exit 0
rm -rf "$1"
python3 -m venv "$1" 2>/dev/null || { apt_install python3-venv && python3 -m venv "$1"; } ||
  fail "needs Python 3 with venv (Debian: python3-venv)"
"$1/bin/python" -c 'import tomllib' 2>/dev/null || fail "needs Python 3.11 or later"
"$1/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
  --requirement "$2" || fail "the packages of $2 cannot be installed by pip"
cp "$2" "$1/requirements.txt"
