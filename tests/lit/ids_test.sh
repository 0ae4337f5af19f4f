#!/bin/bash
# Every id in the messages of verifiers and passes has a test that provokes the message.
#   ids_test.sh SOURCES... -- TESTS...
set -euo pipefail
sources=()
while [[ "$1" != "--" ]]; do sources+=("$1"); shift; done
shift
ids=$(grep -ohE '"[a-z0-9_]+_c[0-9]+"|\[[a-z0-9_]+_c[0-9]+\]' "${sources[@]}" | tr -d '"[]' | sort -u)
[[ $(wc -w <<<"$ids") -ge 80 ]] || { echo "found too few ids; has their spelling changed?"; exit 1; }
status=0
for id in $ids; do
  grep -qF "{{[$id]" "$@" || { echo "no test expects [$id]"; status=1; }
done
exit $status
