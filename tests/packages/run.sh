#!/bin/sh
# Installs the Debian package in a clean Debian that systemd has booted, upgrades it under load beside a
# second node, and purges it. Debian, as root. The service comes from RAINDROP, or is built as the tests
# build it. In the same Debian, rpm installs, upgrades and removes the rpm, without what it requires: its
# scripts run, but neither dnf nor the presets and SELinux of a distribution with rpm.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

say() {
  echo "--- $*"
}

[ "$(id -u)" = 0 ] || fail "runs as root"
command -v debootstrap systemd-nspawn rpm curl >/dev/null || apt_install debootstrap systemd-container rpm curl ||
  fail "needs debootstrap, systemd-nspawn, rpm and curl"
need_service
kept=$(cache debian)
triple=$(uname -m)-unknown-linux-gnu
work=$(mktemp -d "${TMPDIR:-/tmp}/raindrop-packages.XXXXXX")
root=$work/root
first=http://127.0.0.1:8080 second=http://127.0.0.1:8081

say "build the packages"
deploy/packages/build.sh "$RAINDROP" "$triple"
old=$(echo target/distribution/raindrop_*_*.deb)
"$(cargo_install cargo-deb 3.8.0 "$(cache cargo-deb)")" --quiet --no-build --no-strip --target "$triple" --deb-revision 2 \
  --output "$work/new.deb"
"$(cargo_install cargo-generate-rpm 0.21.1 "$(cache cargo-generate-rpm)")" --auto-req disabled --target "$triple" \
  --payload-compress none --set-metadata 'release = "2"' --output "$work/new.rpm"

say "compare the content of the packages and of the archive"
dpkg-deb --contents "$old" >"$work/of-deb"
rpm --query --package --list target/distribution/*.rpm >"$work/of-rpm" 2>"$work/rpm.log" ||
  fail "rpm: $(cat "$work/rpm.log")"
tar --list --file target/distribution/*.tar.gz >"$work/of-archive"
for file in usr/bin/raindrop usr/lib/systemd/system/raindrop.service etc/raindrop/raindrop.toml \
  usr/share/man/man1/raindrop-workers-raise.1 usr/share/bash-completion/completions/raindrop licenses.txt; do
  grep -q "$file" "$work/of-deb" || fail "$file is missing in the Debian package"
  grep -q "$file" "$work/of-rpm" || fail "$file is missing in the rpm"
  grep -q "$(basename "$file")" "$work/of-archive" || fail "$(basename "$file") is missing in the archive"
done
(cd target/distribution && sha256sum --quiet --check SHA256SUMS)

say "a clean Debian"
if [ ! -e "$kept/bookworm.tar" ]; then
  debootstrap --variant=minbase --include=systemd-sysv bookworm "$kept/bookworm" >"$kept/debootstrap.log" ||
    fail "debootstrap: $(tail "$kept/debootstrap.log")"
  tar --create --directory "$kept/bookworm" --file "$kept/bookworm.tar.new" .
  mv "$kept/bookworm.tar.new" "$kept/bookworm.tar"
  rm -rf "$kept/bookworm"
fi
mkdir "$root"
tar --extract --directory "$root" --file "$kept/bookworm.tar"
cp "$old" "$root/root/old.deb"
cp "$work/new.deb" "$root/root/new.deb"

# Neither registered nor on the host's network.
systemd-nspawn --quiet --register=no --keep-unit --private-network --directory "$root" --boot \
  </dev/null >"$work/boot.log" 2>&1 &
container=$!
end() {
  # Two of these signals end it at once.
  kill -TERM "$container" 2>/dev/null || true
  [ -z "${systemd:-}" ] || kill -KILL "$systemd" 2>/dev/null || true
  wait "$container" || true
  rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

# Repeats a command until it succeeds, for five minutes.
until_ok() {
  tries=1500
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "never: $*"
    sleep 0.2
  done
}
booted() {
  systemd=$(pgrep --parent "$container" --oldest) && in_root systemctl is-active multi-user.target
}
in_root() { nsenter --target "$systemd" --all -- "$@"; }
apt() { in_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }
get() { nsenter --target "$systemd" --net -- curl --silent --show-error --fail "$@"; }
# The host's program. systemd answers only processes that it sees. SQLite takes this root for `/`, so that the
# list of packages would be the host's.
mkdir "$work/rpm"
rpm_in_root() {
  nsenter --target "$systemd" --pid -- rpm --force-debian --root "/proc/$systemd/root" --dbpath "$work/rpm" "$@"
}
unit() { in_root systemctl show --value --property "$1" raindrop.service; }
until_ok booted

say "apt install ./raindrop.deb"
apt install -y /root/old.deb
installed=$(date +%s%3N)
until_ok get $first/id/order
echo "first ID $(($(date +%s%3N) - installed)) ms after it"
get $first/version
echo
in_root systemctl --no-pager --lines 0 status raindrop.service
[ "$(unit UnitFileState)" = enabled ] || fail "the unit is not enabled"
[ "$(in_root stat --format %U:%a /var/lib/raindrop)" = raindrop:750 ] || fail "the data is readable for all"
[ "$(in_root stat --format %G:%a /etc/raindrop/raindrop.toml)" = raindrop:640 ] ||
  fail "the configuration is readable for all"
in_root systemd-analyze --no-pager security raindrop.service | tail -n 1

say "a lease in a state file, a reload, and a second node beside it"
in_root sed -i 's|^#state_file =.*|state_file = "lease.state"|' /etc/raindrop/raindrop.toml
in_root systemctl restart raindrop.service
in_root systemctl reload raindrop.service
until_ok in_root sh -c "journalctl --unit raindrop.service | grep 'nothing to reload'"
in_root test -s /var/lib/raindrop/lease.state || fail "there is no state file"
in_root systemd-run --quiet --unit second --uid raindrop --working-directory /var/lib/raindrop \
  /usr/bin/raindrop serve --listen 127.0.0.1:8081
until_ok get $second/id/order

say "apt install of the next version, under load"
process=$(unit MainPID)
mkfifo "$work/go"
nsenter --target "$systemd" --net -- tests/packages/load.py $first $second <"$work/go" >"$work/load.json" &
load=$!
exec 3>"$work/go"
apt install -y /root/new.deb
until_ok get $first/id/order
exec 3>&-
wait $load || { cat "$work/load.json"; fail "requests failed, or IDs repeated"; }
cat "$work/load.json"
[ "$(unit MainPID)" != "$process" ] || fail "the upgrade did not restart the service"
[ "$(in_root dpkg-query --show --showformat '${Version}' raindrop)" = "$(dpkg-deb --field "$work/new.deb" Version)" ]
in_root grep -q '^state_file' /etc/raindrop/raindrop.toml || fail "the upgrade changed the configuration"

say "a process that gives no sign of life is started anew"
in_root mkdir -p /run/systemd/system/raindrop.service.d
echo '[Service]
WatchdogSec=10s' | in_root tee /run/systemd/system/raindrop.service.d/watchdog.conf >/dev/null
in_root systemctl daemon-reload
in_root systemctl restart raindrop.service
process=$(unit MainPID)
in_root sh -c "kill -STOP $process"
restarted() { [ "$(unit NRestarts)" -ge 1 ] && get $first/id/order; }
until_ok restarted
in_root journalctl --quiet --no-pager --output cat --unit raindrop.service | grep -i watchdog
in_root systemctl stop second.service

say "a port in use is tried again until it is free"
in_root systemctl stop raindrop.service
in_root systemd-run --quiet --unit second --uid raindrop --working-directory /var/lib/raindrop \
  /usr/bin/raindrop serve --listen 127.0.0.1:8080
until_ok get $first/id/order
in_root systemctl start --no-block raindrop.service
tried() { [ "$(unit NRestarts)" -gt 5 ]; }
until_ok tried
in_root systemctl stop second.service
until_ok in_root systemctl is-active raindrop.service

say "apt remove keeps the data"
apt remove -y raindrop
! in_root systemctl is-active --quiet raindrop.service || fail "the service still runs"
in_root test -s /var/lib/raindrop/raindrop.db || fail "the data is gone"
in_root test -s /etc/raindrop/raindrop.toml || fail "the configuration is gone"

say "apt purge leaves nothing but the user"
apt purge -y raindrop
left=$(in_root find / -xdev -name '*raindrop*' -not -path '/proc/*' -not -path '/run/*' -not -path '/root/*' \
  -not -path '/var/log/*' -not -path '/sys/*')
[ -z "$left" ] || fail "left: $left"
in_root id raindrop

say "rpm --install, --upgrade and --erase"
in_root userdel raindrop
rpm_in_root --install --nodeps target/distribution/*.rpm
[ "$(unit UnitFileState)" = enabled ] || fail "the unit is not enabled, as Debian's presets say"
[ "$(in_root stat --format %G:%a /etc/raindrop/raindrop.toml)" = raindrop:640 ] ||
  fail "the configuration is readable for all"
in_root sed -i 's|^#state_file =.*|state_file = "lease.state"|' /etc/raindrop/raindrop.toml
in_root systemctl start raindrop.service
get $first/id/order
echo
process=$(unit MainPID)
rpm_in_root --upgrade --nodeps "$work/new.rpm"
until_ok get $first/id/order
[ "$(unit MainPID)" != "$process" ] || fail "the upgrade did not restart the service"
[ "$(rpm_in_root --query raindrop)" = "raindrop-$(dpkg-deb --field "$work/new.deb" Version).$(uname -m)" ]
in_root grep -q '^state_file' /etc/raindrop/raindrop.toml || fail "the upgrade changed the configuration"
rpm_in_root --erase raindrop
! in_root systemctl is-active --quiet raindrop.service || fail "the service still runs"
in_root test -s /var/lib/raindrop/raindrop.db || fail "the data is gone"
in_root test ! -L /etc/systemd/system/multi-user.target.wants/raindrop.service || fail "the unit is still enabled"
in_root rm -r /var/lib/raindrop

say "apt install where a user raindrop exists already, without a group"
in_root userdel raindrop
in_root useradd --gid users raindrop
user=$(in_root id --user raindrop)
apt install -y /root/new.deb
until_ok in_root systemctl is-active raindrop.service
[ "$(in_root stat --format %u:%G /var/lib/raindrop)" = "$user:raindrop" ] || fail "another user owns the data"
