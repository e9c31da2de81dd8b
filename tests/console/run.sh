#!/bin/sh
# Tests the console in a real browser, against services on free ports. Debian's package brings the
# browser; the program that drives it and the rules of accessibility are Python packages, installed
# into the build's folder. UPDATE=1 rewrites the screenshots of README and docs. Arguments go to
# unittest: tests/console/run.sh -k docs.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep console)

need_chromium
# Without it Chinese would be empty boxes on the screenshots.
[ -z "${UPDATE:-}" ] || fc-list :lang=zh | grep -q . || apt_install fonts-noto-cjk ||
  fail "needs a Chinese font for the screenshots (Debian: fonts-noto-cjk)"

python=$kept/python
tests/python/run.sh "$python" tests/console/requirements.txt

need_service
exec "$python/bin/python" -B -m unittest discover \
  --start-directory tests/console --pattern '*_test.py' "$@"
