#!/bin/sh
# Names the Debian packages that `make test` needs and this machine lacks. With the argument
# `install` it installs them, as root on Debian or Ubuntu; more arguments are packages to take instead
# of all. Exits with 1 while one is missing.
set -eu

cd "$(dirname "$0")/.."
. tests/functions.sh
PATH=$PATH:/usr/sbin:/usr/local/sbin

action=${1:-}
[ $# = 0 ] || shift
wanted="$*"

# Adds the package $1 to the missing ones unless one of the other arguments is there: a program on
# the path, or a file.
need() {
  package=$1
  shift
  case " ${wanted:-$package} " in *" $package "*) ;; *) return 0 ;; esac
  for found; do
    [ ! -e "$found" ] || return 0
    case $found in */*) ;; *) ! command -v "$found" >/dev/null || return 0 ;; esac
  done
  missing="$missing $package"
}

look() {
  missing=
  need mariadb-server mariadb-install-db mysql_install_db
  need galera-4 /usr/lib/galera/libgalera_smm.so /usr/lib64/galera-4/libgalera_smm.so
  need postgresql initdb /usr/lib/postgresql/*/bin/initdb
  need pgbouncer pgbouncer
  need redis-server redis-server valkey-server
  need sqlite3 sqlite3
  need faketime /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib/faketime/libfaketimeMT.so.1 \
    /usr/local/lib/faketime/libfaketimeMT.so.1
  need openssl openssl
  # Only where it is asked for.
  case " $wanted " in *" valgrind "*) need valgrind valgrind ;; esac
}

look
if [ -n "$missing" ] && [ "$action" = install ]; then
  # shellcheck disable=SC2086 # a list of packages
  apt_install $missing && look
fi
[ -z "$missing" ] ||
  fail "packages are missing; as root on Debian or Ubuntu: apt-get install$missing"
echo "no package is missing"
