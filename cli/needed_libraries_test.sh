#!/bin/bash
# weft-run starts on any system with glibc 2.34: it needs only glibc's own libraries, in versions up to 2.34. Libraries
# that are not linked in (CUDA, MPI) are opened when they are used.
# Argument: weft-run
set -uo pipefail
run=$1
newest=2.34

fail() { echo "FAILED: $*"; exit 1; }

headers=$(objdump -p "$run") || fail "objdump cannot read $run"
needed=$(sed -n 's/^ *NEEDED *//p' <<<"$headers")
[[ -n $needed ]] || fail "no needed libraries were found: objdump's output has changed"
if grep -Eq 'lib(a|t|ub)san' <<<"$needed"; then
  echo "built with a sanitizer, whose libraries are shared: nothing to check"
  exit 0
fi
for library in $needed; do
  case $library in
    libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-x86-64.so.2) ;;
    *) fail "weft-run needs $library; allowed: glibc's own libraries (libc, libm, libpthread, libdl, librt)" ;;
  esac
done

versions=$(sed -n '/^Version References/,$p' <<<"$headers" | grep -o 'GLIBC_[0-9.A-Z_a-z]*' | sort -Vu)
[[ -n $versions ]] || fail "no symbol versions were found: objdump's output has changed"
last=$(printf '%s\n' $versions GLIBC_$newest | sort -V | tail -1)
if [[ $last != GLIBC_$newest ]]; then
  objdump -T "$run" | grep -F "$last"
  fail "weft-run needs $last; allowed: up to GLIBC_$newest"
fi
grep -q 'GLIBC_PRIVATE' <<<"$versions" && fail "weft-run needs symbols that are private to one glibc"
echo "needs $(echo $needed), up to $(tail -1 <<<"$versions")"
