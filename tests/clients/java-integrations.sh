#!/bin/sh
# Tests the modules for Spring Boot, MyBatis-Plus and Hibernate with the real frameworks against the real service,
# with H2 and a private PostgreSQL, and replays replicas that share a MariaDB. RAINDROP names the service's binary.
# Needs root.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need_maven
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || apt_install postgresql || fail "needs PostgreSQL (Debian: postgresql)"
command -v mariadbd >/dev/null || apt_install mariadb-server || fail "needs mariadbd (Debian: mariadb-server)"
command -v ip >/dev/null || apt_install iproute2 || fail "needs ip (Debian: iproute2)"
need unshare nsenter runuser
[ "$(id -u)" = 0 ] || fail "needs root, for namespaces"
need_service

mvn --batch-mode --no-transfer-progress --quiet -f clients/java install -DskipTests
# Two at a time, because each waits a lot.
mvn --batch-mode --no-transfer-progress -T 2 -f clients/java-integrations verify
