# shellcheck shell=sh
# What the scripts of the tests have in common; they source it.

fail() {
  echo "$0: $*" >&2
  exit 1
}

# Installs a package of Debian, as root alone.
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "installing $1" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq -o DPkg::Lock::Timeout=300 update &&
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$1" >&2
}

# Makes the virtual environment $1 with the package $2, name==version, unless it is there.
python_install() {
  [ ! -f "$1/$2" ] || return 0
  rm -rf "$1"
  python3 -m venv "$1" 2>/dev/null || { apt_install python3-venv && python3 -m venv "$1"; } ||
    fail "needs Python 3 with venv (Debian: python3-venv)"
  "$1/bin/python" -c 'import tomllib' 2>/dev/null || fail "needs Python 3.11 or later"
  "$1/bin/pip" install --quiet --disable-pip-version-check "$2" || fail "$2 cannot be installed by pip"
  touch "$1/$2"
}
