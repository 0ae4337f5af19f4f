#!/bin/bash
# Runs every command of docs/launch.md that needs one machine and no GPU, exactly as written except for the port.
# Arguments: launch.md weft weft-run
set -uo pipefail
document=$(readlink -f "$1")
mkdir "$TEST_TMPDIR/bin" "$TEST_TMPDIR/work"
cp -L "$2" "$3" "$TEST_TMPDIR/bin/"
export PATH="$TEST_TMPDIR/bin:$PATH"
cd "$TEST_TMPDIR/work" || exit 1
fail() { cat out.txt err.txt; echo "FAILED: $*"; exit 1; }

awk '/^```sh$/ { block = 1; next } /^```/ { block = 0 } block' "$document" > commands.sh
[ "$(grep -c 'weft run ' commands.sh)" -eq 4 ] || { cat commands.sh; echo "FAILED: the commands of $document"; exit 1; }
grep -q 'MASTER_PORT=29500' commands.sh || { echo "FAILED: no port in $document"; exit 1; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed -i "s/MASTER_PORT=29500/MASTER_PORT=$port/" commands.sh
# Settings that Open MPI needs as root, on few cores, without ssh.
export TMPDIR=$(mktemp -d /tmp/mpiXXXX)
trap 'rm -rf "$TMPDIR"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl=self,vader \
  OMPI_MCA_pml=ob1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm=isolated
# Open MPI leaks at exit, from modules that are already unloaded.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
bash -exuo pipefail commands.sh > out.txt 2> err.txt || fail "a command of the document"

# Three ways to start a job give one result.
for way in 'transport tcp (auto), bootstrap local,' 'transport tcp (auto), bootstrap env (auto),' \
  'transport mpi (auto), bootstrap mpi (auto),'; do
  grep -qF "$way" out.txt || fail "no run with $way"
done
losses=$(grep -o '^step [0-9]*  loss [^ ]*' out.txt)
[ "$(wc -l <<< "$losses")" -eq 12 ] || fail "expected three runs of four steps"
[ "$(sort -u <<< "$losses" | wc -l)" -eq 4 ] || fail "the three runs differ"
echo "all commands ran"
