#!/bin/sh
# Builds the image without a daemon and runs it once: read-only, without capabilities, probed, asked
# for IDs and stopped. Debian, as root. The base images come from their registries with PULL=1;
# otherwise stand-ins are made here of Debian's packages and this machine's toolchain.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep image)
image=localhost/raindrop:test
# Below the ports of outgoing connections.
port=${PORT:-$((10000 + $$ % 20000))}
export DEBIAN_FRONTEND=noninteractive

say() {
  echo "--- $*"
}

[ "$(id -u)" = 0 ] || fail "runs as root"
if ! command -v buildah podman debootstrap runc curl >/dev/null; then
  apt-get -qq update
  apt-get -qq install -y --no-install-recommends buildah podman debootstrap runc curl >/dev/null
fi

storage="--root $kept/storage --runroot $kept/run --storage-driver vfs"
build() {
  # shellcheck disable=SC2086
  buildah $storage "$@"
}
container() {
  # shellcheck disable=SC2086
  podman $storage --runtime runc --cgroup-manager cgroupfs "$@"
}

# Imports a folder as an image; the rest are options of `buildah config`.
import() {
  name=$1 root=$2
  shift 2
  made=$(build from scratch)
  build add --quiet "$made" "$root" / >/dev/null
  build config "$@" "$made"
  build commit --quiet --rm "$made" "$name" >/dev/null
}

# A Debian with a C compiler, and the toolchain and certificates of this machine.
rust_stand_in() {
  root=$kept/rust
  rm -rf "$root"
  debootstrap --variant=minbase --include=gcc,libc6-dev,make,binutils bookworm "$root" >"$kept/debootstrap.log" ||
    fail "debootstrap: $(tail "$kept/debootstrap.log")"
  mkdir -p "$root/usr/local/rust" "$root/usr/local/cargo" "$root/etc/ssl/certs"
  sysroot=$(rustc --print sysroot)
  cp -a "$sysroot/bin" "$sysroot/lib" "$root/usr/local/rust/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  import "$1" "$root" --env CARGO_HOME=/usr/local/cargo \
    --env PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin
  rm -rf "$root"
}

# As distroless is made: a few packages unpacked, no shell.
base_stand_in() {
  root=$kept/base
  rm -rf "$root" "$kept/packages"
  mkdir -p "$root" "$kept/packages"
  packages="libc6 libgcc-s1 libstdc++6 gcc-12-base ca-certificates tzdata netbase"
  # shellcheck disable=SC2086
  (cd "$kept/packages" && apt-get -qq -o APT::Sandbox::User=root download $packages)
  for package in "$kept"/packages/*.deb; do
    dpkg-deb -x "$package" "$root"
  done
  mkdir -p "$root/etc/ssl/certs" "$root/tmp"
  chmod 1777 "$root/tmp"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >"$root/etc/passwd"
  echo 'nonroot:x:65532:' >"$root/etc/group"
  import "$1" "$root" --user 65532
  rm -rf "$root" "$kept/packages"
}

if [ -n "${PULL:-}" ]; then
  set -- --pull
else
  rust=localhost/raindrop/rust:$(rustc --version | cut -d ' ' -f 2)-stand-in
  base=localhost/raindrop/base:stand-in
  build inspect --type image "$rust" >/dev/null 2>&1 || { say "make $rust"; rust_stand_in "$rust"; }
  build inspect --type image "$base" >/dev/null 2>&1 || { say "make $base"; base_stand_in "$base"; }
  set -- --pull-never --build-arg "RUST_IMAGE=$rust" --build-arg "BASE_IMAGE=$base"
fi

say "build"
build bud --isolation chroot --network host "$@" --format docker --layers --tag $image \
  --build-arg "REVISION=$(git rev-parse HEAD)" . >"$kept/build.log" 2>&1 || fail "build: $(tail -n 30 "$kept/build.log")"
grep 'STEP ' "$kept/build.log" | tr -s ' ' | cut -c 1-100

say "what it is"
build inspect --type image --format \
  'user {{.Docker.Config.User}}, entry point {{.Docker.Config.Entrypoint}} {{.Docker.Config.Cmd}}, check {{.Docker.Config.Healthcheck.Test}}' $image
echo
size=$(container image inspect --format '{{.Size}}' $image)
echo "$((size / 1000000)) MB"
[ "$size" -lt 100000000 ] || fail "the image has $size bytes; it was meant to stay under 100 MB"

name=raindrop-image-test-$$
data=$(mktemp -d)
chown 65532:65532 "$data"
end() {
  container rm --force --ignore "$name" >/dev/null 2>&1 || true
  rm -rf "$data"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

say "run, read-only and without capabilities"
container run --detach --name "$name" --network host --read-only --cap-drop all \
  --security-opt no-new-privileges --ulimit nofile=20000:20000 --ulimit nproc=1000:1000 \
  --volume "$data:/var/lib/raindrop" --env "RAINDROP__HTTP__LISTEN=[::]:$port" \
  --env "RAINDROP__HTTP__ADMIN_LISTEN=[::]:$((port + 1))" $image \
  >/dev/null 2>"$kept/podman.log" || fail "run: $(cat "$kept/podman.log")"
url=http://127.0.0.1:$port
for _ in $(seq 300); do
  ! curl --silent --fail --output /dev/null "$url/readyz" || break
  sleep 0.2
done
if ! curl --silent --show-error --fail --output /dev/null "$url/readyz"; then
  container logs "$name"
  fail "it is not ready"
fi

say "curl $url/id/order"
answer=$(curl --silent --show-error --fail "$url/id/order")
echo "$answer"
id=$(expr "$answer" : '{"id":"\([0-9]*\)"}') || fail "no ID in $answer"
say "curl $url/parse/$id"
curl --silent --show-error --fail "$url/parse/$id"
echo

say "health check"
container healthcheck run "$name" || fail "the health check fails"
echo passed
say "no shell"
! container exec "$name" sh -c true 2>/dev/null || fail "there is a shell in it"
echo none

say "stop"
# Without systemd, podman complains that it has no timer for the health check.
container stop --time 20 "$name" >/dev/null 2>"$kept/podman.log" || fail "stop: $(cat "$kept/podman.log")"
container logs "$name" 2>&1 | tail -n 1
code=$(container inspect --format '{{.State.ExitCode}}' "$name")
[ "$code" = 0 ] || fail "it ended with $code"
echo "exit code $code"
