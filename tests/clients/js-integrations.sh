#!/bin/sh
# Tests the packages for Prisma and Drizzle with the real frameworks, on private PostgreSQL servers and
# the real service. RAINDROP names its binary. Arguments choose packages: js-integrations.sh drizzle.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need node npm
need_service
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || apt_install postgresql || fail "needs PostgreSQL (Debian: postgresql)"

(cd clients/js && npm ci --ignore-scripts --silent && npm run --silent build)

[ $# != 0 ] || set -- prisma drizzle
for package; do
  echo "== $package"
  (
    cd "clients/js-$package"
    # Prisma alone is 330 MB, so what the lock file names is installed once.
    if ! cmp -s package-lock.json node_modules/installed-lock.json; then
      npm ci --ignore-scripts --silent
      cp package-lock.json node_modules/installed-lock.json
    fi
    npm test
  )
done
