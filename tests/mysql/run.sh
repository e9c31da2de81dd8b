#!/bin/sh
# Runs the store tests of MySQL against MySQL proper, and what a fail-over to its replica does.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
root=$(tests/mysql/download.sh)

# With its own C library: the machine's may be older.
mysqld() {
  libraries=$(dirname "$(find "$root/usr/lib" -name 'ld-linux-*.so.*' | head -n 1)")
  user=
  [ "$(id -u)" != 0 ] || user=--user=root
  exec "$libraries"/ld-linux-*.so.* --library-path "$libraries" "$root/usr/sbin/mysqld" \
    --no-defaults --basedir="$root/usr" --datadir="$data/data" \
    --lc-messages-dir="$root/usr/share/mysql" --plugin-dir="$root/usr/lib/mysql/plugin" \
    --tmpdir="$data" --secure-file-priv=NULL --disable-log-bin $user "$@"
}

data=$(mktemp -d)
server=
end() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  rm -rf "$data"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

cat >"$data/init.sql" <<'SQL'
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
SQL
(mysqld --initialize-insecure --init-file="$data/init.sql") >"$data/log" 2>&1 ||
  fail "mysqld cannot be initialised: $(cat "$data/log")"

# Another process may have the port: then tries the next one.
port=$((10000 + $$ % 20000))
for _ in 1 2 3 4 5; do
  port=$((port + 1))
  : >"$data/log"
  (mysqld --port=$port --bind-address=127.0.0.1 --socket="$data/server.sock" --mysqlx=OFF \
    --pid-file="$data/pid" --max-connections=500) >"$data/log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    ! grep -q 'ready for connections' "$data/log" || break 2
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
done
grep -q 'ready for connections' "$data/log" || fail "mysqld does not start: $(cat "$data/log")"
grep -o 'mysqld.*starting' "$data/log" | head -n 1 || true

RAINDROP_TEST_MYSQL_URL=mysql://root@127.0.0.1:$port \
  $cargo test --locked --test store -- mariadb mysql --include-ignored
$cargo test --locked --test faults failover -- --ignored --nocapture
