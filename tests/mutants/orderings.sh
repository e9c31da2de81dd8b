#!/bin/sh
# Weakens the memory orderings of issuing to Relaxed, and demands that a loom model notices: one at
# a time, except for those that tests/mutants/README.md lists as needless. The script weakens the
# needless ones all at once, and the models must hold: a run that is possible with one of them
# weakened is possible with all of them weakened. Arguments are files to take instead of all.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
kept=$(keep mutants/loom)
ordering='Ordering::(Acquire|Release|AcqRel|SeqCst)'

[ $# -gt 0 ] || set -- crates/core/src/issue/*.rs crates/core/src/segment/*.rs crates/core/src/sync/*.rs

# Each ordering outside of tests, models and planted bugs: file, line, which one of the line, and a name without
# the line, so that the list does not rot.
: >"$kept/all"
for file; do
  case $file in *models* | */planted.rs) continue ;; esac
  awk -v file="$file" -v ordering="$ordering" '
    /^#\[cfg\(test\)\]/ { exit }
    match($0, /fn [a-z_0-9]+/) { within = substr($0, RSTART + 3, RLENGTH - 3) }
    {
      rest = $0; before = ""
      for (which = 1; match(rest, ordering); which++) {
        word = substr(rest, RSTART, RLENGTH)
        line = before substr(rest, 1, RSTART - 1) "«" substr(word, 11) "»" substr(rest, RSTART + RLENGTH)
        sub(/^ +/, "", line); gsub(/Ordering::/, "", line)
        printf "%s\t%d\t%d\t%s: %s: %s\n", file, NR, which, file, within, line
        before = before substr(rest, 1, RSTART + RLENGTH - 1)
        rest = substr(rest, RSTART + RLENGTH)
      }
    }' "$file" >>"$kept/all"
done

sed -n 's/^- `\(crates[^`]*«[^`]*\)`.*/\1/p' tests/mutants/README.md | sort >"$kept/listed"
: >"$kept/needless"
: >"$kept/needed"
while read -r place; do
  if echo "$place" | cut -f4 | grep -qxFf "$kept/listed"; then
    echo "$place" >>"$kept/needless"
  else
    echo "$place" >>"$kept/needed"
  fi
done <"$kept/all"

copy=$kept/copy
refresh() {
  mkdir -p "$copy"
  for part in Cargo.toml Cargo.lock src crates migrations tests examples README.md docs; do
    rm -rf "${copy:?}/$part"
    cp -r "$part" "$copy"
  done
}

# Weakens the orderings of a list, whose places are those of the files as they stand here.
weaken() {
  cut -f1-3 "$1" | while read -r file line which; do
    awk -v line="$line" -v which="$which" -v ordering="Ordering::(Acquire|Release|AcqRel|SeqCst|Weak__)" '
      NR == line {
        rest = $0; done = ""
        for (i = 1; match(rest, ordering); i++) {
          done = done substr(rest, 1, RSTART - 1) (i == which ? "Ordering::Weak__" : substr(rest, RSTART, RLENGTH))
          rest = substr(rest, RSTART + RLENGTH)
        }
        $0 = done rest
      }
      { print }' "$copy/$file" >"$kept/weakened"
    cat "$kept/weakened" >"$copy/$file"
  done
  for file in $(cut -f1 "$1" | sort -u); do
    sed -i 's/Weak__/Relaxed/g' "$copy/$file"
  done
}

# Whether every model of these modules holds. Optimised, because models run for long, but so that
# they are compiled quickly.
hold() {
  binary=$(cd "$copy" && CARGO_TARGET_DIR=$kept/build \
    CARGO_INCREMENTAL=1 $cargo test --quiet --locked --profile soak \
    -p raindrop-core --features loom,planted --lib --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
  [ -n "$binary" ] || fail "the models cannot be built"
  (
    # A model that is weakened may never end.
    timeout "${TIMEOUT:-600}" "$binary" "$1" 2>&1 || echo "... FAILED"
  ) | awk '/\.\.\. FAILED$/ { failed = 1; exit } END { exit failed }'
}

models_of() {
  case $1 in
    crates/core/src/segment/*) echo segment::models ;;
    crates/core/src/issue/*) echo issue::models ;;
    *) echo models ;;
  esac
}

status=0
if [ -s "$kept/needless" ]; then
  refresh
  weaken "$kept/needless"
  if hold models; then
    echo "$(wc -l <"$kept/needless") orderings that are listed: the models hold without all of them"
  else
    echo "the models do not hold without all of the orderings that tests/mutants/README.md lists" >&2
    status=1
  fi
fi

refresh
noticed=0
while read -r place; do
  echo "$place" >"$kept/one"
  file=$(cut -f1 "$kept/one")
  name=$(cut -f4 "$kept/one")
  weaken "$kept/one"
  start=$(date +%s)
  if hold "$(models_of "$file")" </dev/null; then
    echo "survived, and not listed in tests/mutants/README.md: $name" >&2
    status=1
  else
    noticed=$((noticed + 1))
    echo "noticed after $(($(date +%s) - start)) s: $name"
  fi
  cat "$file" >"$copy/$file"
done <"$kept/needed"
echo "$noticed orderings are noticed when they are weakened"
exit $status
