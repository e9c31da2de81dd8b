#!/bin/sh
# Builds the clients' packages as registries get them, into target/packages, and checks their contents: packages for
# npm with attw and publint, packages for Maven by their jars and effective poms, Go's modules with the oldest Go
# that they support, Python's wheel with pyright. clients-test and integrations-test test the clients' behaviour.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need_maven
need go node npm unzip
root=$PWD
packages=$(keep packages)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -f "$packages"/*

# Fails unless the listing of an archive on standard input names each of the files.
has() {
  archive=$1
  listing=$(cat)
  shift
  for file; do
    echo "$listing" | grep -q "^$file\$" || fail "$archive lacks $file"
  done
}

echo "== JavaScript"
(cd tests/clients/package && npm ci --ignore-scripts --silent)
tools=$root/tests/clients/package/node_modules/.bin
for package in js js-prisma js-drizzle; do
  file=$(cd "clients/$package" && npm ci --ignore-scripts --silent && rm -rf dist && npm run --silent build &&
    npm pack --silent --pack-destination "$packages")
  tar -tzf "$packages/$file" | has "$file" package/LICENSE package/README.md package/package.json \
    package/dist/esm/index.js package/dist/esm/index.d.ts \
    package/dist/commonjs/index.js package/dist/commonjs/index.d.ts package/dist/commonjs/package.json
  "$tools/publint" --strict "$packages/$file"
  "$tools/attw" --no-emoji "$packages/$file"
done
(
  cd "$scratch"
  npm init --yes --silent >/dev/null
  npm install --ignore-scripts --silent "$packages"/example-raindrop-[0-9]*.tgz
  use="new Raindrop({ urls: ['http://127.0.0.1:1'] }).close();"
  node --input-type=module --eval "import { Raindrop } from '@example/raindrop'; $use"
  node --input-type=commonjs --eval "const { Raindrop } = require('@example/raindrop'); $use
    require('node:assert').match(require.resolve('@example/raindrop'), /commonjs/);"
)

echo "== Java"
maven() { mvn --batch-mode --no-transfer-progress --quiet -P publish -DskipTests "$@"; }
help=org.apache.maven.plugins:maven-help-plugin:3.5.1
maven -f clients/java install
maven -f clients/java-integrations -pl .,spring-boot,mybatis-plus,hibernate verify
for module in java java-integrations java-integrations/spring-boot java-integrations/mybatis-plus java-integrations/hibernate; do
  pom=$scratch/$(echo "$module" | tr / -).xml
  maven -f "clients/$module" -N $help:effective-pom "-Doutput=$pom" >/dev/null
  for element in name description url licenses developers scm issueManagement; do
    grep -q "^  <${element}[ >]" "$pom" || fail "the pom of clients/$module lacks $element"
  done
  grep -q "^  <url>https://git.example.org/raindrop</url>" "$pom" || fail "the pom of clients/$module has another url than the project"
  [ "$module" != java-integrations ] || continue
  set -- "clients/$module"/target/*-0.1.0.jar
  for jar in "$1" "${1%.jar}-sources.jar" "${1%.jar}-javadoc.jar"; do
    unzip -Z1 "$jar" | has "$jar" META-INF/LICENSE
    cp "$jar" "$packages"
  done
done

echo "== Go"
for module in go go-gorm; do
  cd "$root/clients/$module"
  [ -f LICENSE ] || fail "clients/$module lacks LICENSE"
  GOTOOLCHAIN=go$(sed -n 's/^go //p' go.mod).0 go vet ./...
  go mod tidy -diff
done
# Whatever else it required would be in every application.
unexpected=$(go list -m -f '{{if not .Indirect}}{{.Path}}{{end}}' all |
  grep -v -x -e 'git.example.org/raindrop/clients/go' -e 'git.example.org/raindrop/clients/go-gorm' -e gorm.io/gorm) || true
[ -z "$unexpected" ] || fail "clients/go-gorm requires more than the client and GORM: $unexpected"

echo "== Python"
cd "$root"
python=$(keep python-client)
tests/python/run.sh "$python" clients/python/requirements.txt
# Not isolated, because a build would then install packages without hashes.
"$python/bin/python" -m build --no-isolation --outdir "$packages" clients/python >/dev/null
for file in "$packages"/raindrop_client-*.whl; do
  unzip -Z1 "$file" | has "$file" raindrop_client/py.typed raindrop_client/django.py raindrop_client/sqlalchemy.py \
    'raindrop_client-.*.dist-info/licenses/LICENSE'
  ! unzip -p "$file" '*/METADATA' | grep "^Requires-Dist" | grep -v "extra ==" || fail "$file requires packages"
  python3 -m venv --without-pip "$scratch/python"
  unzip -q "$file" -d "$scratch/python"/lib/python3*/site-packages
done
for file in "$packages"/raindrop_client-*.tar.gz; do
  tar -tzf "$file" | sed 's,^[^/]*/,,' | has "$file" LICENSE README.md pyproject.toml PKG-INFO src/raindrop_client/py.typed
done
"$scratch/python/bin/python" -c 'import raindrop_client; raindrop_client.Client("http://127.0.0.1:1").close()'
for version in 3.10 3.14; do
  (cd clients/python && "$tools/pyright" --pythonpath "$python/bin/python" --pythonversion $version)
done

ls -l "$packages"
