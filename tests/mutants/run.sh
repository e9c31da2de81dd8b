#!/bin/sh
# Mutation testing of what keeps IDs unique: changes the code in one place at a time, as
# .cargo/mutants.toml says, and demands that the unit tests notice. Every mutant that survives must
# be listed in tests/mutants/README.md with the reason. Finds cargo-mutants on the path, or builds it.
#
# Arguments are patterns of files to take instead of all, such as 'crates/core/src/lease/**'.
# JOBS=n tests n mutants at a time. FILTER=regex takes the mutants whose names it matches.
# QUICK=1 leaves out the explorer. BASELINE=skip assumes that the tests pass without a mutant.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh
jobs=${JOBS:-2}
kept=$(keep mutants)
mutants=$(cargo_install cargo-mutants 27.1.0 "$(cache mutants)")

[ $# -gt 0 ] ||
  set -- 'crates/core/src/lease/**' 'crates/core/src/issue/**' 'crates/core/src/segment/**' 'crates/keeper/src/**'
patterns=
for pattern; do
  patterns="$patterns --file $pattern"
done

rm -rf "$kept"/[0-9]*/mutants.out

# Each job has a separate build folder, which keeps the dependencies for the next run.
set -f
shard=0
processes=
while [ "$shard" -lt "$jobs" ]; do
  mkdir -p "$kept/$shard"
  # shellcheck disable=SC2086 # lists of words
  CARGO_TARGET_DIR=$kept/$shard/build CARGO_PROFILE_DEV_DEBUG=0 \
    "$mutants" mutants --package raindrop-core --package raindrop-keeper $patterns ${FILTER:+--re "$FILTER"} --shard "$shard/$jobs" \
    --sharding round-robin --baseline "${BASELINE:-run}" --timeout 120 --colors never --caught --unviable \
    --output "$kept/$shard" >"$kept/$shard/log" 2>&1 &
  processes="$processes $!"
  shard=$((shard + 1))
done
trap 'kill $processes 2>/dev/null || true' INT TERM

shard=0
for process in $processes; do
  code=0
  wait "$process" || code=$?
  # 2: some survived; 3: some timed out, which counts as noticed.
  case $code in
    0 | 2 | 3) ;;
    *) tail -n 30 "$kept/$shard/log" >&2; fail "cargo-mutants failed with $code" ;;
  esac
  shard=$((shard + 1))
done
set +f

count() {
  cat "$kept"/[0-9]*/mutants.out/"$1.txt" 2>/dev/null | wc -l
}
echo "noticed $(count caught), timed out $(count timeout), not compiled $(count unviable)," \
  "survived $(count missed)"

[ "$(count caught)" != 0 ] || fail "no mutant was noticed: were any made?"

# A mutant's name without its line, as often as it survives, so that the list does not rot.
cat "$kept"/[0-9]*/mutants.out/missed.txt 2>/dev/null | sed 's/:[0-9]*:[0-9]*: /: /' | sort >"$kept/survived"
sed -n 's/^- `\(crates[^`]*\)`.*/\1/p' tests/mutants/README.md | sort >"$kept/listed"
comm -23 "$kept/survived" "$kept/listed" >"$kept/unlisted"
if [ -s "$kept/unlisted" ]; then
  sed 's/^/survived, and not listed in tests\/mutants\/README.md: /' "$kept/unlisted" >&2
  exit 1
fi
