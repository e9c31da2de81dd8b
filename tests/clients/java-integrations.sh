#!/bin/sh
# Tests the modules for Spring Boot, MyBatis-Plus and Hibernate with the real frameworks against the real service,
# and replays replicas that share a MariaDB. RAINDROP names the service's binary. Needs root.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

command -v mvn >/dev/null || apt_install maven openjdk-17-jdk-headless || fail "needs mvn (Debian: maven)"
command -v mariadbd >/dev/null || apt_install mariadb-server || fail "needs mariadbd (Debian: mariadb-server)"
command -v ip >/dev/null || apt_install iproute2 || fail "needs ip (Debian: iproute2)"
for program in javac unshare nsenter; do
  command -v $program >/dev/null || fail "needs $program"
done
[ "$(id -u)" = 0 ] || fail "needs root, for namespaces"
if [ -z "${RAINDROP:-}" ]; then
  # As the tests build it, so that after them nothing is compiled again.
  $cargo test --locked --no-run --test http
  RAINDROP=$target/debug/raindrop
fi
RAINDROP=$(realpath "$RAINDROP")
export RAINDROP

mvn --batch-mode --no-transfer-progress --quiet -f clients/java install -DskipTests
# Two at a time, because each waits a lot.
mvn --batch-mode --no-transfer-progress -T 2 -f clients/java-integrations verify
