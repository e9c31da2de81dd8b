#!/bin/sh
# Runs the store tests against a release of an engine, from its container image: mysql:8.4,
# mariadb:10.6, postgres:13, redis:6.2. Needs Docker, or DOCKER=podman. Leaves out the tests that
# start, freeze and stop servers of their own, which `make test` runs with the installed ones.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
docker=${DOCKER:-docker}
image=${1:?names no image, such as mysql:8.4}

options=
case $image in
  mysql:* | mariadb:*)
    engine=mariadb port=3306
    options="--env MYSQL_ALLOW_EMPTY_PASSWORD=yes"
    arguments="--max-connections=500"
    # By TCP: while the image sets the database up, it listens on its socket alone.
    probe="mysqladmin ping --host=127.0.0.1 --silent || mariadb-admin ping --host=127.0.0.1 --silent"
    ;;
  postgres:*)
    engine=postgres port=5432
    options="--env POSTGRES_HOST_AUTH_METHOD=trust"
    arguments="-c max_connections=500"
    probe="pg_isready --host=127.0.0.1 --username=postgres"
    ;;
  redis:*)
    engine=redis port=6379
    arguments="--databases 1000 --appendonly yes --appendfsync always"
    probe="redis-cli ping"
    ;;
  *) fail "$image is no image of mysql, mariadb, postgres or redis" ;;
esac

# shellcheck disable=SC2086 # lists of words
container=$($docker run --detach --publish "127.0.0.1::$port" $options \
  "docker.io/library/$image" $arguments)
trap '$docker rm --force --volumes "$container" >/dev/null' EXIT
trap 'exit 1' INT TERM HUP

patience=120
until $docker exec "$container" sh -c "$probe" >/dev/null 2>&1; do
  [ "$patience" -gt 0 ] || fail "$image does not start: $($docker logs "$container" 2>&1 | tail)"
  patience=$((patience - 1))
  sleep 1
done
address=$($docker port "$container" "$port/tcp" | head -n 1)

RAINDROP_TEST_MYSQL_URL=mysql://root@$address \
  RAINDROP_TEST_POSTGRES_URL=postgres://postgres@$address \
  RAINDROP_TEST_REDIS_URL=redis://$address \
  $cargo test --locked --test store -- "::$engine::" --skip outage::
