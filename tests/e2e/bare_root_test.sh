#!/bin/bash
# Runs weft-run in a root directory that holds only weft-run, glibc and a program: no Bazel, LLVM, Abseil, protobuf,
# libstdc++, CUDA or MPI. It trains on the CPU there, and one line states what a GPU run would need.
# Arguments: compile_tiny weft-run
set -uo pipefail
compile=$1 run=$2
fail() { echo "FAILED: $*"; exit 1; }

if ldd "$run" | grep >/dev/null -E 'lib(a|t|ub)san'; then
  echo "SKIPPED: built with a sanitizer, whose libraries are shared"
  exit 0
fi
# Changing the root directory needs root or a user namespace.
PATH=$PATH:/usr/sbin:/sbin
if chroot / true 2> /dev/null; then
  enter=(chroot)
elif unshare --user --map-root-user chroot / true 2> /dev/null; then
  enter=(unshare --user --map-root-user chroot)
else
  echo "SKIPPED: changing the root directory needs root or user namespaces; neither is available"
  exit 0
fi

root=$TEST_TMPDIR/root
mkdir -p "$root/tmp"
cp "$run" "$root/weft-run" || fail "copy"
"$compile" "$root/program.weft" "$root/text.txt" 2 1 1f1b 0 4 || fail "compile"
# The loader and the libraries that it needs. needed_libraries_test checks that these are glibc's.
for file in $(ldd "$run" | grep -o '/[^ ]*'); do
  mkdir -p "$root$(dirname "$file")"
  cp -L "$file" "$root$file" || fail "copy $file"
done
find "$root" -type f | sed "s#^$root##" | sort
there() { env -i PATH="$PATH" TMPDIR=/tmp "${enter[@]}" "$root" /weft-run "$@"; }

# Not in a pipe: grep -q would close it while the program still writes.
[[ $(there --version) =~ ^weft-run\ [0-9] ]] || fail "version"
[[ $(there run --help) == *--bootstrap* ]] || fail "help of run"
[[ $(there calibrate --help) == *--backend* ]] || fail "help of calibrate"

"$run" run "$root/program.weft" --data "$root/text.txt" --backend=cpu > "$root/outside" || fail "outside"
there run /program.weft --data /text.txt --backend=cpu > "$root/inside" 2> "$root/err" || { cat "$root/err"; fail "cpu"; }
losses() { grep -o '^step [0-9]*  loss [^ ]*  lr [^ ]*  norm [^ ]*' "$1"; }
[[ $(losses "$root/inside" | wc -l) -eq 4 ]] || { cat "$root/inside"; fail "steps"; }
diff <(losses "$root/outside") <(losses "$root/inside") || fail "the losses differ"
# By default it finds no GPU and prints what it uses instead.
there run /program.weft --data /text.txt --steps 1 > "$root/inside" || fail "auto"
grep -q 'backend cpu (auto)' "$root/inside" || { cat "$root/inside"; fail "the choice of the backend"; }

# one_line STATUS PATTERN COMMAND...: one line on stderr, and that status.
one_line() {
  local status=$1 pattern=$2 got; shift 2
  "$@" > "$root/out" 2> "$root/err"
  got=$?
  [[ $got -eq $status && $(wc -l < "$root/err") -eq 1 ]] || { cat "$root/out" "$root/err"; fail "status $got: $*"; }
  grep -Eq "$pattern" "$root/err" || { cat "$root/err"; fail "not '$pattern'"; }
  cat "$root/err"
}
one_line 1 'backend cuda: .*(driver|toolkit)' there run /program.weft --data /text.txt --backend=cuda
one_line 1 'no MPI launcher has started this process' there run /program.weft --data /text.txt --transport=mpi
# With the variables of an MPI launcher, it finds no MPI library.
under_mpi() {
  env -i PATH="$PATH" TMPDIR=/tmp OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 \
    "${enter[@]}" "$root" /weft-run "$@"
}
one_line 1 'libmpi' under_mpi run /program.weft --data /text.txt
# Without /proc it cannot find its own binary, and so cannot start the ranks.
one_line 1 '/proc' there run /program.weft --data /text.txt --bootstrap=local
echo "all as expected"
