#!/bin/sh
# Tests the integrations of the client for Go against real peers: GORM with a private MariaDB and the real
# service, which RAINDROP can name. Debian's package of MariaDB is installed; Go must be there.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

command -v mariadbd >/dev/null || apt_install mariadb-server || fail "needs mariadbd (Debian: mariadb-server)"
need go mariadb-install-db unshare
need_service

root=$PWD
for module in go-gorm go-gorm/tests go-bench; do
  cd "clients/$module"
  go vet ./...
  cd "$root"
done

cd clients/go-gorm/tests
# -count=1: the service is no input that Go knows of.
go test -count=1 -v ./...
