#!/bin/sh
# Runs the commands of docs/tutorial.md as they stand, against real servers of PostgreSQL and Prometheus, and
# compares what they print with the page. As root: in namespaces of their own the ports of the page are free, and
# no server outlives the test. Debian's packages bring the servers. Arguments go to unittest.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
[ "$(id -u)" = 0 ] || fail "needs root, for namespaces"
need python3 unshare setpriv

ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || apt_install postgresql ||
  fail "needs PostgreSQL (Debian: postgresql)"
command -v promtool >/dev/null && command -v prometheus >/dev/null || apt_install prometheus ||
  fail "needs prometheus and promtool (Debian: prometheus)"
command -v curl >/dev/null || apt_install curl || fail "needs curl"
command -v ip >/dev/null || apt_install iproute2 || fail "needs ip (Debian: iproute2)"
need_service
exec python3 -B -m unittest discover --start-directory tests/tutorial --pattern '*_test.py' "$@"
