#!/bin/bash
# doc_test.sh GENERATED COMMITTED TARGET: fails unless the two files are equal.
set -euo pipefail
diff "$2" "$1" && exit 0
echo "$2 is out of date; to update it: bazel build $3 && cp bazel-bin/${1} $2 && chmod 644 $2"
exit 1
