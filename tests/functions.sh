# shellcheck shell=sh
# What the scripts of the tests have in common. They source it from the project's folder.

cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}

fail() {
  echo "$0: $*" >&2
  exit 1
}

# Fails unless each of these programs is there.
need() {
  for program; do
    command -v "$program" >/dev/null || fail "needs $program"
  done
}

# Exports RAINDROP, the path of the service: what it names already, or else as the tests build it, so that
# after them nothing is compiled again.
need_service() {
  if [ -z "${RAINDROP:-}" ]; then
    $cargo test --locked --no-run --test http
    RAINDROP=$target/debug/raindrop
  fi
  RAINDROP=$(realpath "$RAINDROP")
  export RAINDROP
}

# Exports CHROMIUM, the path of the browser.
need_chromium() {
  CHROMIUM=$(find_chromium) || { apt_install chromium && CHROMIUM=$(find_chromium); } ||
    fail "needs chromium (Debian: chromium)"
  export CHROMIUM
}
find_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

# Installs Maven and a JDK if there is no Maven.
need_maven() {
  command -v mvn >/dev/null || apt_install maven openjdk-17-jdk-headless || fail "needs mvn (Debian: maven)"
  need javac
}

# Creates the folder $1 among the build's files and prints its absolute path.
keep() {
  mkdir -p "$target/$1"
  (cd "$target/$1" && pwd)
}

# Creates the folder $1 for what takes minutes to build and all clones share, and prints its absolute
# path: in $RAINDROP_CACHE or the user's caches, or among the build's files where neither can be written.
cache() {
  caches=${RAINDROP_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/raindrop}
  if mkdir -p "$caches/$1" 2>/dev/null && [ -w "$caches/$1" ]; then
    (cd "$caches/$1" && pwd)
  else
    keep "$1"
  fi
}

# Prints the path of the program $1: as found on the PATH, or version $2, built by cargo into the
# folder $3. Further arguments are cargo's.
cargo_install() {
  ! command -v "$1" || return 0
  name=$1 version=$2 folder=$3
  shift 3
  if [ ! -x "$folder/$version/bin/$name" ]; then
    echo "building $name $version; some minutes, once" >&2
    fresh=$(mktemp -d "$folder/$version.XXXXXX")
    # Without optimisation: it is built for longer than it ever runs.
    CARGO_TARGET_DIR=$fresh/build CARGO_PROFILE_DEV_DEBUG=0 $cargo install --quiet --debug --locked \
      --root "$fresh" "$@" "$name@$version" >&2 || fail "$name cannot be built"
    rm -rf "$fresh/build"
    # In one step; who was faster has built the same.
    mv -T "$fresh" "$folder/$version" 2>/dev/null || rm -rf "$fresh"
  fi
  echo "$folder/$version/bin/$name"
}

# Prints the path of the program $1: as found on the PATH, or as go_install_version does.
go_install() { command -v "$1" || go_install_version "$@"; }

# Prints the path of the program $1 in version $3 of the module $2, which Go installs into the folder $4.
go_install_version() {
  if [ ! -x "$4/$1-$3" ]; then
    command -v go >/dev/null || fail "needs Go to install $1 $3"
    echo "installing $1 $3" >&2
    fresh=$(mktemp -d "$4/$3.XXXXXX")
    GOBIN=$fresh go install "$2@$3" >&2 || fail "$1 cannot be installed by Go"
    mv "$fresh/$1" "$4/$1-$3"
    rmdir "$fresh"
  fi
  echo "$4/$1-$3"
}

# Installs packages of Debian, as root alone. One step at a time: apt does not wait for the lock of its
# lists.
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "installing Debian packages: $*" >&2
  export DEBIAN_FRONTEND=noninteractive
  (
    flock 9 &&
      apt-get -qq -o DPkg::Lock::Timeout=300 update &&
      apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" >&2
  ) 9>/run/lock/raindrop-apt
}

