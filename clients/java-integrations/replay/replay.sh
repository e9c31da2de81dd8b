#!/bin/sh
# Runs five replicas of an application as containers of five hosts run: each with a process namespace and a
# network of its own, where all have the same process ID and the same MAC address. Prints what happened with each
# generator. Needs root. CLASSPATH has the application; RAINDROP names the service.
#
# It all runs in namespaces that end with this script, so that no process and no address is left.
set -eu

replicas=5
# As Docker derives it from 172.17.0.2, the address of the first container on each host.
mac=02:42:ac:11:00:02

if [ -z "${INSIDE:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  INSIDE=$folder unshare --net --mount --pid --fork --kill-child --mount-proc "$0" &
  # Nothing gentler ends unshare, and with it all that runs inside.
  trap 'kill -9 $!; exit 1' INT TERM
  wait $!
  exit
fi

cd "$INSIDE"

fail() {
  echo "$0: $*" >&2
  tail -n 30 ./*.log >&2
  exit 1
}

# Waits until a command succeeds, a minute at most.
await() {
  for _ in $(seq 600); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  fail "this failed for a minute: $*"
}

# The servers are at 10.77.0.1, in the network of this script, which has no way out.
ip link set lo up
ip address add 10.77.0.1/32 dev lo

mkdir data tmp
mariadb-install-db --no-defaults --user=root --datadir="$PWD/data" --auth-root-authentication-method=normal \
  --skip-test-db --skip-name-resolve --innodb-log-file-size=16M --innodb-flush-method=nosync >install.log 2>&1 ||
  fail "no database"
mariadbd --no-defaults --user=root --datadir="$PWD/data" --tmpdir="$PWD/tmp" --socket="$PWD/socket" \
  --pid-file="$PWD/pid" --port=3306 --bind-address=10.77.0.1 --skip-name-resolve --skip-log-bin \
  --innodb-flush-log-at-trx-commit=2 --innodb-flush-method=nosync --innodb-doublewrite=0 \
  --innodb-buffer-pool-size=64M --performance-schema=0 >mariadb.log 2>&1 &

cat >raindrop.toml <<EOF
[http]
listen = "10.77.0.1:8080"

[store]
url = "sqlite://$PWD/raindrop.db"
EOF
env -i "$RAINDROP" serve --config raindrop.toml >raindrop.log 2>&1 &

sql() {
  mariadb --no-defaults --socket="$PWD/socket" --user=root --skip-column-names --execute="$1"
}
await sql "SELECT 1"
sql "CREATE USER shop IDENTIFIED BY 'shop'"
for database in built_in raindrop; do
  sql "CREATE DATABASE $database; GRANT ALL ON $database.* TO shop; USE $database;
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(100));
    CREATE TABLE ready (id BIGINT AUTO_INCREMENT PRIMARY KEY)"
done
await "$RAINDROP" health --ready --url http://10.77.0.1:8080

options="--spring.datasource.username=shop --spring.datasource.password=shop \
  --spring.datasource.hikari.maximum-pool-size=2 --raindrop.deadline=30s \
  --raindrop.urls=http://10.77.0.1:8080 --raindrop.mybatis-plus.code=order --spring.main.banner-mode=off \
  --mybatis-plus.global-config.banner=false --logging.level.root=warn"

# What the first process of a container does: it gives the host a name, starts some short programs, as entry
# points do, and then Java. The built-in generator takes a process ID below 10 for that of a container.
entry_point='
  hostname "replica-$1"
  echo "10.77.$1.2 replica-$1" >"hosts-$1"
  mount --bind "hosts-$1" /etc/hosts
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/true; done
  shift
  java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m org.example.raindrop.replay.Replica "$@"
  exit $?'

# One replica: its network has an end of a cable, and the other end is in the network of this script, whose
# first process is 1.
replica='
  ip link set lo up
  ip link add eth0 address '$mac' type veth peer name "replica$1" netns 1
  ip address add "10.77.$1.2/30" dev eth0
  ip link set eth0 up
  nsenter --target 1 --net sh -c "ip address add 10.77.$1.1/30 dev replica$1; ip link set replica$1 up"
  ip route add default via "10.77.$1.1"
  exec unshare --pid --fork --kill-child --mount-proc --uts sh -euc "$ENTRY_POINT" sh "$@"'

pids=
for i in $(seq $replicas); do
  # shellcheck disable=SC2086 # The options are words.
  ENTRY_POINT=$entry_point unshare --net sh -euc "$replica" sh "$i" $options >"replica-$i.out" 2>"replica-$i.log" &
  pids="$pids $!"
done
for pid in $pids; do
  wait "$pid" || fail "a replica failed"
done

cat replica-*.out >all
for generator in built_in raindrop; do
  sed -n "s/^$generator id //p" all | sort >ids
  # The built-in generator has the worker in the bits 12 to 21.
  echo "generator=$generator" \
    "process-ids=$(grep '^pid' all | sort -u | wc -l)" \
    "workers=$(awk '{ print int($1 / 4096) % 1024 }' ids | sort -u | wc -l)" \
    "drawn=$(wc -l <ids)" \
    "repeated=$(uniq -d ids | wc -l)" \
    "saved=$(grep -c "^$generator saved" all)" \
    "refused=$(grep -c "^$generator refused" all)" \
    "rows=$(sql "SELECT COUNT(*) FROM $generator.orders")"
done
