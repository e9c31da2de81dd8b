#!/bin/sh
# Packages the chart for a release on GitHub: package.sh OWNER/NAME VERSION FOLDER. Puts the addresses of that
# repository, its image and its chart where this tree has placeholders. HELM is the program, helm if unset.
set -eu

[ $# = 3 ] || { echo "usage: $0 OWNER/NAME VERSION FOLDER" >&2; exit 2; }
repository=$1 version=$2 folder=$3
# Registries take lower case only.
name=$(echo "$repository" | tr '[:upper:]' '[:lower:]')
home=https://github.com/$repository
# Of this version: the pages of another one may describe another chart.
pages=$home/blob/v$version
chart=$(mktemp -d)
trap 'rm -rf "$chart"' EXIT
cp -R "$(dirname "$0")/raindrop/." "$chart"

sed -i \
  -e '/^# Placeholders/d' -e 's/; the address in runbook_url is a placeholder, as in Cargo.toml//' \
  -e "s|https://git.example.org/raindrop/\(.*\.svg\)|https://raw.githubusercontent.com/$repository/v$version/\1|" \
  -e "s|https://git.example.org/raindrop/|$pages/|" \
  -e "s|https://git.example.org/raindrop|$home|" \
  -e "s|image: raindrop:|image: ghcr.io/$name:|" \
  "$chart/Chart.yaml" "$chart/files/alerts.yaml"
case $version in
  *-*) echo '  artifacthub.io/prerelease: "true"' >>"$chart/Chart.yaml" ;;
esac
sed -i "/^image:/,/^[a-hj-z]/ { s|^  registry: .*|  registry: ghcr.io|; s|^  repository: .*|  repository: $name| }" \
  "$chart/values.yaml"
sed -i \
  -e "/^helm install/ s|.*|helm install raindrop oci://ghcr.io/$name/charts/raindrop --version $version|" \
  -e '/^The image must be/,+1d' \
  -e "s|(../../|($pages/|g" -e "s|\([ (]\)\(docs/[a-z]*\.md\)|\1$pages/\2|g" \
  -e "s/^\(| \`image.registry\` |\) [^|]*/\1 \`\"ghcr.io\"\` /" \
  -e "s#^\(| \`image.repository\` |\) [^|]*#\1 \`\"$name\"\` #" \
  "$chart/README.md"

! grep -rnE 'git\.example\.org|laceholders?, as in|\(\.\./' "$chart" ||
  { echo "$0: the lines above would be published with a placeholder" >&2; exit 1; }
"${HELM:-helm}" package "$chart" --destination "$folder"
