# Requests two IDs of $CODE from the service at $URL, parses the second, and expects the service to
# refuse a wrong count; without $CODE, only the latter. If ID requests need a token, $TOKENS is `needed`.
# The test has no token and expects to be refused. It sends nothing secret and does not verify a
# certificate, which may be for other names.
ask() {
  curl -sS --insecure --max-time 10 --retry 10 --retry-delay 1 --retry-connrefused "$@"
}
fail() {
  echo "failed: $*" >&2
  exit 1
}
issue() {
  answer=$(ask --fail "$URL/id/$CODE")
  id=$(printf %s "$answer" | sed -n 's/^{"id":"\([^"]*[0-9]\)"}$/\1/p')
  [ -n "$id" ] || fail "GET /id/$CODE answered $answer"
}
if [ "${TOKENS:-}" = needed ]; then
  problem=$(ask --write-out ' %{http_code}' "$URL/id/helm-test")
  case $problem in
    *'"code":"unauthorized"'*' 401') echo "requests need a token" && exit 0 ;;
    *) fail "GET /id/helm-test answered $problem" ;;
  esac
fi
problem=$(ask --write-out ' %{http_code}' "$URL/ids/helm-test?n=0")
case $problem in
  *'"code":"invalid_count"'*' 400') ;;
  *) fail "GET /ids/helm-test?n=0 answered $problem" ;;
esac
[ -n "${CODE:-}" ] || { echo "requested no ID, because tests.code is empty" && exit 0; }
issue
first=$id
issue
[ "$id" != "$first" ] || fail "$id was issued twice"
parsed=$(ask "$URL/parse/$id")
case $parsed in
  *'"id":"'*'"timestamp":"'*) echo "issued and parsed $id" ;;
  *'"code":"not_decodable"'*) echo "issued $id" ;;
  *) fail "GET /parse/$id answered $parsed" ;;
esac
