# For tests of the command line: source it with the binary in $WEFT.
#
#   expect STATUS PATTERN ARGS...   runs weft ARGS; the exit status must be STATUS, and stdout (STATUS 0) or stderr must
#                                   match the extended regular expression PATTERN; a failure is one line on stderr and
#                                   nothing on stdout
#   finish                          ends the test
checks=0 failures=0

fail() { echo "FAIL: $*" >&2; failures=$((failures + 1)); }

expect() {
  local status=$1 pattern=$2; shift 2
  checks=$((checks + 1))
  local out err got=0
  err=$(mktemp)
  out=$("$WEFT" "$@" 2>"$err" </dev/null) || got=$?
  local shown=$out
  [ "$status" -eq 0 ] || shown=$(cat "$err")
  if [ "$got" -ne "$status" ]; then
    fail "weft $*: exit status $got, expected $status; stderr: $(cat "$err")"
  elif ! grep -qE -- "$pattern" <<<"$shown"; then
    fail "weft $*: '$pattern' not in: $shown"
  elif [ "$status" -ne 0 ] && { [ -n "$out" ] || [ "$(wc -l <"$err")" -ne 1 ]; }; then
    fail "weft $*: an error must be one line on stderr and nothing on stdout; stdout: $out; stderr: $(cat "$err")"
  fi
  rm -f "$err"
}

finish() {
  echo "$((checks - failures)) of $checks checks passed"
  [ "$failures" -eq 0 ]
}
