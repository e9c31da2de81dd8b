#!/bin/sh
# Lints the workflows with actionlint and the shell scripts with shellcheck. Installs what it cannot
# find: actionlint with Go, shellcheck with pip, into the build's folder.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep workflows)
actionlint=$(go_install actionlint github.com/rhysd/actionlint/cmd/actionlint v1.7.12 "$kept")
tests/python/run.sh "$kept/python" tests/workflows/requirements.txt
shellcheck=$kept/python/bin/shellcheck

"$actionlint" -shellcheck "$shellcheck" -pyflakes ''
"$shellcheck" --severity=warning --external-sources --shell=sh \
  tests/*.sh tests/*/*.sh clients/*/*.sh deploy/*/*.sh deploy/packages/debian/* deploy/packages/rpm/* \
  helm/*.sh helm/raindrop/files/test.sh
"$shellcheck" .ci/run tests/steps.bash
