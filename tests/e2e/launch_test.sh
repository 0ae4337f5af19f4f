#!/bin/bash
# Jobs of several processes without MPI: --bootstrap=local and =env over the transport tcp. Tests what they compute, how
# they end, and the errors that they report.
# Arguments: compile_tiny weft-run
set -uo pipefail
compile=$1 run=$(readlink -f "$2")
dir=$TEST_TMPDIR
text=$dir/text.txt
# Maximum seconds until a job has ended.
limit=10
if ldd "$run" | grep >/dev/null -E 'lib(a|t|ub)san'; then limit=100; fi

fail() { echo "FAILED: $*"; exit 1; }
losses() { grep -o '^step [0-9]*  loss [^ ]*  lr [^ ]*  norm [^ ]*' "$1"; }
# expect_error FILE PATTERN: the file has exactly one line of weft's own, and the line matches.
expect_error() {
  local lines; lines=$(grep '^weft run: ' "$1" | grep -vc ': stopping after the step in progress')
  [[ $lines -eq 1 ]] || { cat "$1"; fail "$lines error lines, expected one"; }
  grep -q "^weft run: .*$2" "$1" || { cat "$1"; fail "no error like '$2'"; }
}
# wait_for_step FILE STEP. FILE must be new: until the background shell opens it, an old file has the previous run's
# lines.
wait_for_step() { for _ in $(seq 300); do grep -q "^step $2 " "$1" 2> /dev/null && return; sleep 0.1; done; fail "no step $2"; }
# Two free ports in a row.
free_port() {
  python3 - <<'PY'
import socket
while True:
    with socket.socket() as a, socket.socket() as b:
        a.bind(("127.0.0.1", 0))
        try:
            b.bind(("127.0.0.1", a.getsockname()[1] + 1))
        except (OSError, OverflowError):
            continue
        print(a.getsockname()[1])
        break
PY
}
secret=0123456789abcdef0123456789abcdef
# as_rank RANK SIZE PORT COMMAND...: runs the command with the variables that torchrun sets.
as_rank() {
  # CPU ranks need no LOCAL_RANK.
  RANK=$1 WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$3 WEFT_JOB_SECRET=$secret "${@:4}"
}

"$compile" "$dir/p2.weft" "$text" 2 1 1f1b 0 6 || fail compile
"$compile" "$dir/p2d2.weft" "$text" 2 2 gpipe 1 6 || fail compile
"$compile" "$dir/long.weft" "$text" 2 1 1f1b 0 100000 || fail compile
for name in p2 p2d2; do
  "$run" run "$dir/$name.weft" --data "$text" --save-weights "$dir/$name.safetensors" > "$dir/$name.out" || fail "inproc"
done

# ---- One process per rank on this node gives the same bits as threads in one process.
for name in p2 p2d2; do
  "$run" run "$dir/$name.weft" --data "$text" --bootstrap=local --transport=tcp --threads 2 \
    --save-weights "$dir/$name.tcp.safetensors" --trace "$dir/$name.json" --report "$dir/$name.report.json" \
    > "$dir/$name.tcp.out" 2> "$dir/err" || { cat "$dir/err"; fail "local $name"; }
  diff <(losses "$dir/$name.out") <(losses "$dir/$name.tcp.out") || fail "losses of $name differ"
  cmp "$dir/$name.safetensors" "$dir/$name.tcp.safetensors" || fail "weights of $name differ"
  grep -q 'transport tcp, bootstrap local,' "$dir/$name.tcp.out" || fail "transport and bootstrap are not shown"
  grep -q '"weft_trace":' "$dir/$name.json" || fail "trace"
  grep -q '"transport": "tcp"' "$dir/$name.report.json" || fail "report"
  [[ ! -s $dir/err ]] || { cat "$dir/err"; fail "a good run says something on stderr"; }
done
[[ $(losses "$dir/p2d2.tcp.out" | wc -l) -eq 6 ]] || fail "steps"
# weft-run prints the choices that it makes itself.
"$run" run "$dir/p2.weft" --data "$text" --transport=tcp --steps 1 > "$dir/out" || fail "tcp alone"
grep -q 'transport tcp, bootstrap local (auto),' "$dir/out" || { cat "$dir/out"; fail "auto bootstrap"; }
"$run" run "$dir/p2.weft" --data "$text" --bootstrap local --steps 1 > "$dir/out" || fail "local alone"
grep -q 'transport tcp (auto), bootstrap local,' "$dir/out" || { cat "$dir/out"; fail "auto transport"; }

# ---- Started by another launcher, with torchrun's variables.
env_job() {
  local name=$1 size=$2 port=$3 rank; shift 3
  local pids=()
  for rank in $(seq 1 $((size - 1))); do
    as_rank "$rank" "$size" "$port" "$run" run "$dir/$name.weft" --data "$text" "$@" > "$dir/out.$rank" 2> "$dir/err.$rank" &
    pids+=($!)
  done
  as_rank 0 "$size" "$port" "$run" run "$dir/$name.weft" --data "$text" "$@" > "$dir/out" 2> "$dir/err"
  local status=$?
  for rank in "${pids[@]}"; do wait "$rank" || status=$?; done
  return $status
}
port=$(free_port)
env_job p2d2 4 "$port" --save-weights "$dir/env.safetensors" || { cat "$dir"/err*; fail "env"; }
diff <(losses "$dir/p2d2.out") <(losses "$dir/out") || fail "losses of env differ"
cmp "$dir/p2d2.safetensors" "$dir/env.safetensors" || fail "weights of env differ"
grep -q 'transport tcp (auto), bootstrap env (auto),' "$dir/out" || { cat "$dir/out"; fail "auto env"; }
for rank in 1 2 3; do [[ ! -s $dir/out.$rank && ! -s $dir/err.$rank ]] || fail "rank $rank prints"; done

# torchrun's own store uses MASTER_PORT, and strangers who connect to weft's port disturb no rank.
port=$(free_port)
python3 - "$port" <<'PY' &
import socket, sys, time
port = int(sys.argv[1])
agent = socket.socket()
agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
agent.bind(("127.0.0.1", port))
agent.listen()
kept = []
end = time.time() + 60
while time.time() < end and len(kept) < 200:
    try:
        knock = socket.create_connection(("127.0.0.1", port + 1), 1)
        knock.sendall(b"GET / HTTP/1.1\r\n\r\n" * (len(kept) % 20))
        kept.append(knock)
    except OSError:
        time.sleep(0.01)
time.sleep(20)
PY
knocking=$!
sleep 0.3
TORCHELASTIC_USE_AGENT_STORE=True env_job p2 2 "$port" --bootstrap=env || { cat "$dir"/err*; fail "under torchrun"; }
kill $knocking
diff <(losses "$dir/p2.out") <(losses "$dir/out") || fail "losses under torchrun differ"

# ---- A rank that fails or dies ends the job, with one error that names the rank.
start=$SECONDS
"$run" run "$dir/p2d2.weft" --data "$text" --bootstrap=local --inject-failure 3:2:4 --fault-report none > /dev/null 2> "$dir/err"
[[ $? -eq 5 ]] || fail "exit status after a failure"
expect_error "$dir/err" "rank 3, step 2, action 4 '.*': injected failure"
(( SECONDS - start < limit )) || fail "a failure took $((SECONDS - start)) s"
# A rank that is stuck in a kernel is named, not the ranks that wait for it. Its process still ends, and every rank
# leaves a report.
for victim in 0 1; do
  before=$SECONDS
  "$run" run "$dir/p2d2.weft" --data "$text" --bootstrap=local --inject-failure $victim:2:2:stall --timeout 1.5 \
    --fault-report "$dir/stall.json" > /dev/null 2> "$dir/err"
  status=$?
  [[ $status -eq 3 ]] || { cat "$dir/err"; fail "exit status $status of a stalled job"; }
  (( SECONDS - before < limit + 3 )) || fail "a stalled job took $((SECONDS - before)) s to end"
  expect_error "$dir/err" "rank $victim, step 2, action 2 '.*' has run for more than 1.5 s"
  for rank in 0 1 2 3; do [[ -s $dir/stall-$rank.json ]] || fail "no report of rank $rank"; done
  rm -f "$dir"/stall-*.json
done
for victim in 0 2; do
  start=$SECONDS
  "$run" run "$dir/p2d2.weft" --data "$text" --bootstrap=local --inject-failure $victim:3:5:kill --fault-report none > /dev/null 2> "$dir/err"
  [[ $? -eq 137 ]] || fail "exit status after a death"
  expect_error "$dir/err" "rank $victim died (process [0-9]* at 127.0.0.1) in step 3, action 5 '"
  (( SECONDS - start < limit )) || fail "a death took $((SECONDS - start)) s"
done
start=$SECONDS
port=$(free_port)
env_job p2d2 4 "$port" --inject-failure 2:3:5:kill --fault-report none && fail "status after a death (env)"
cat "$dir"/err* > "$dir/all"
expect_error "$dir/all" "rank 2 died (process [0-9]* at 127.0.0.1; .* the last ones reported) in step [0-9]*, action"
(( SECONDS - start < limit )) || fail "a death under env took $((SECONDS - start)) s"
# A rank is killed from outside during a long run.
rm -f "$dir/long.out"
"$run" run "$dir/long.weft" --data "$text" --bootstrap=local > "$dir/long.out" 2> "$dir/err" &
launcher=$!
wait_for_step "$dir/long.out" 3
victim=$(pgrep -P $launcher | tail -1)
start=$SECONDS
kill -KILL "$victim"
wait $launcher
[[ $? -eq 137 ]] || fail "exit status after kill -9"
expect_error "$dir/err" "rank [01] died (process $victim at 127.0.0.1)"
(( SECONDS - start < limit )) || fail "kill -9 took $((SECONDS - start)) s"
# If the only rank is killed, the launching process reports it.
"$compile" "$dir/p1.weft" "$text" 1 1 gpipe 1 6 || fail compile
"$run" run "$dir/p1.weft" --data "$text" --bootstrap=local --inject-failure 0:3:1:kill --fault-report none > /dev/null 2> "$dir/err"
[[ $? -eq 137 ]] || fail "exit status of one rank"
expect_error "$dir/err" "rank 0 (process [0-9]*) was killed by signal 9 (Killed)"

# ---- A rank fails before it has met the others: they do not wait for it, and its reason is printed once.
# mixed_job BAD ARGS...: three ranks, of which BAD is started with ARGS.
mixed_job() {
  local bad=$1 port rank; shift
  port=$(free_port)
  mixed_status=()
  local pids=()
  rm -f "$dir"/mixed.*
  for rank in 0 1 2; do
    local args=(run "$dir/p3.weft" --data "$text" --fault-report "$dir/mixed.json")
    [[ $rank -ne $bad ]] || args=("$@")
    env RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" WEFT_JOB_SECRET=$secret \
      WEFT_RENDEZVOUS_TIMEOUT=40 "$run" "${args[@]}" > /dev/null 2> "$dir/mixed.$rank" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank"; mixed_status+=($?); done
}
"$compile" "$dir/p3.weft" "$text" 3 1 1f1b 0 6 || fail compile
"$compile" "$dir/long4.weft" "$text" 2 2 gpipe 1 100000 || fail compile
good=(run "$dir/p3.weft" --data "$text" --fault-report "$dir/mixed.json")
for case in "2|rank 2: .*missing.txt: |run $dir/p3.weft --data $dir/missing.txt" \
  "0|.*missing.txt: |run $dir/p3.weft --data $dir/missing.txt" \
  "1|rank 1: .*missing.weft: |run $dir/missing.weft --data $text" \
  "2|rank 2: --threads='0': allowed|${good[*]} --threads 0" \
  "1|rank 1: .*backend cuda: |${good[*]} --backend=cuda" \
  "2|the launcher started 3 processes, but the program has 2 ranks|run $dir/p2.weft --data $text" \
  "1|rank 1 was started differently from rank 0: --timeout is 20 s on that rank and 300 s|${good[*]} --timeout 20" \
  "1|rank 1 was started differently from rank 0: the last step (--steps) is 2 on that rank and 6|${good[*]} --steps 2"; do
  IFS='|' read -r bad pattern words <<< "$case"
  start=$SECONDS
  CUDA_VISIBLE_DEVICES= mixed_job "$bad" $words
  cat "$dir"/mixed.[012] > "$dir/all"
  expect_error "$dir/all" "$pattern"
  (( SECONDS - start < limit )) || fail "the others waited $((SECONDS - start)) s for rank $bad: $words"
  [[ ${mixed_status[0]} -ne 0 && ${mixed_status[1]} -ne 0 && ${mixed_status[2]} -ne 0 ]] || fail "a rank ended well: $words"
  [[ ! -e $dir/mixed-0.json && ! -e $dir/mixed-1.json && ! -e $dir/mixed-2.json ]] || fail "reports of no step: $words"
done
# A rank is killed while the job starts, at any point of the start.
for victim in 1 2; do
  start=$SECONDS
  "$run" run "$dir/long4.weft" --data "$text" --bootstrap=local --fault-report none > /dev/null 2> "$dir/err" &
  launcher=$!
  until [[ $(pgrep -P $launcher | wc -l) -eq 4 ]]; do sleep 0.005; done
  kill -KILL "$(pgrep -P $launcher | sed -n $((victim + 1))p)"
  wait $launcher
  [[ $? -eq 137 ]] || { cat "$dir/err"; fail "exit status after an early kill -9"; }
  expect_error "$dir/err" "rank $victim .*\(was killed by signal 9\|was lost while the job was starting\|died\)"
  (( SECONDS - start < limit + 3 )) || fail "an early kill -9 took $((SECONDS - start)) s"
done

# ---- Ranks that wait in vain are asked to stop: all end within seconds, with one line.
port=$(free_port)
start=$SECONDS
for rank in 0 1; do
  env RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" WEFT_JOB_SECRET=$secret \
    "$run" "${good[@]}" > /dev/null 2> "$dir/mixed.$rank" &
  pids[rank]=$!
done
sleep 1.5
kill -TERM "${pids[1]}"
for rank in 0 1; do wait "${pids[rank]}"; [[ $? -eq 1 ]] || fail "exit status of a rank that met nobody"; done
cat "$dir"/mixed.[01] > "$dir/all"
expect_error "$dir/all" "rank 1 was stopped by a signal before all ranks had connected"
(( SECONDS - start < limit )) || fail "a stop before the start took $((SECONDS - start)) s"
# Ranks are asked to stop in a step, while they wait for a rank that hangs: as a stopped process and as a stuck thread.
rm -f "$dir/long.out"
"$run" run "$dir/long.weft" --data "$text" --bootstrap=local --fault-report "$dir/vain.json" > "$dir/long.out" 2> "$dir/err" &
launcher=$!
wait_for_step "$dir/long.out" 3
kill -STOP "$(pgrep -P $launcher | tail -1)"
sleep 0.3
start=$SECONDS
kill -TERM $launcher
wait $launcher && fail "exit status of a stop in vain"
# The rank may have been stopped between two steps.
expect_error "$dir/err" "rank 0, step [0-9]*, action .* has waited for rank 1 on '.*' for more than [0-9.]* s; the run was asked to stop\|rank 0 has waited for rank 1 to end its step for more than [0-9.]* s"
(( SECONDS - start < 3 * limit / 2 )) || fail "a stop in vain took $((SECONDS - start)) s"
[[ -s $dir/vain-0.json ]] || fail "no report of a stop in vain"
rm -f "$dir/long.out"
"$run" run "$dir/long.weft" --data "$text" --inject-failure 1:3:4:stall --fault-report none > "$dir/long.out" 2> "$dir/err" &
alone=$!
wait_for_step "$dir/long.out" 2
sleep 0.3
start=$SECONDS
kill -TERM $alone
wait $alone
[[ $? -eq 3 ]] || { cat "$dir/err"; fail "exit status of a stop in vain in one process"; }
expect_error "$dir/err" "rank 0, step 3, action .* has waited for rank 1"
(( SECONDS - start < 3 * limit / 2 )) || fail "a stop in vain took $((SECONDS - start)) s in one process"

# ---- A rank that SIGSTOP stops is given up at its deadline. Ten seconds later all ranks have ended, and one reported
# it.
rm -f "$dir/long.out"
"$run" run "$dir/long.weft" --data "$text" --bootstrap=local --timeout 2 --fault-report "$dir/stop.json" > "$dir/long.out" \
  2> "$dir/err" &
launcher=$!
wait_for_step "$dir/long.out" 3
kill -STOP "$(pgrep -P $launcher | tail -1)"
start=$SECONDS
wait $launcher
[[ $? -eq 3 ]] || { cat "$dir/err"; fail "exit status after SIGSTOP"; }
(( SECONDS - start < limit + 3 )) || fail "SIGSTOP took $((SECONDS - start)) s"
# The rank is in an action, or between two steps.
where="\(, step [0-9]*, action [0-9]* '.*'\)\?"
expect_error "$dir/err" "rank 0$where has waited for rank 1 \(on '.*'\|to end its step\) for more than 3 s"
[[ -s $dir/stop-0.json ]] || fail "no report after SIGSTOP"

# ---- No process is orphaned, however the launcher ends.
rm -f "$dir/long.out"
"$run" run "$dir/long.weft" --data "$text" --bootstrap=local > "$dir/long.out" 2> "$dir/err" &
launcher=$!
wait_for_step "$dir/long.out" 2
children=$(pgrep -P $launcher)
[[ $(wc -w <<< "$children") -eq 2 ]] || fail "processes of the job: $children"
kill -KILL $launcher
wait $launcher 2> /dev/null
for _ in $(seq 50); do kill -0 $children 2> /dev/null || break; sleep 0.1; done
for child in $children; do kill -0 "$child" 2> /dev/null && fail "process $child has survived its launcher"; done

# ---- Signals reach all ranks: they finish the step, save the state, and exit with status 0.
for signal in TERM USR1 INT; do
  rm -rf "$dir/ckpt" "$dir/long.out"
  # Background jobs of a shell ignore SIGINT.
  python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
    "$run" run "$dir/long.weft" --data "$text" --bootstrap=local --checkpoint "$dir/ckpt" \
    > "$dir/long.out" 2> "$dir/err" &
  launcher=$!
  wait_for_step "$dir/long.out" 3
  kill -$signal $launcher
  wait $launcher || { cat "$dir/err"; fail "exit status after SIG$signal"; }
  stopped=$(sed -n 's/^stopped by signal after step \([0-9]*\); saved in .*/\1/p' "$dir/long.out")
  [[ -n $stopped ]] || { tail -3 "$dir/long.out"; fail "SIG$signal is not reported"; }
  [[ $(grep -c 'stopping after the step in progress' "$dir/err") -eq 1 ]] || fail "SIG$signal is not answered once"
done
"$run" run "$dir/long.weft" --data "$text" --checkpoint "$dir/ckpt" --resume --steps $((stopped + 2)) \
  > "$dir/out" 2> "$dir/err" || { cat "$dir/err"; fail "resume"; }
grep -q "^resuming after step $stopped from" "$dir/out" || fail "the resume is not reported"

# ---- Errors are printed once, and name what is wrong.
refused() {
  local status=$1 pattern=$2; shift 2
  "$@" > "$dir/out" 2> "$dir/err"
  local got=$?
  [[ $got -eq $status ]] || { cat "$dir/err"; fail "status $got, expected $status: $*"; }
  expect_error "$dir/err" "$pattern"
}
refused 1 'missing.txt' "$run" run "$dir/p2d2.weft" --data "$dir/missing.txt" --bootstrap=local
refused 1 'missing.weft' "$run" run "$dir/missing.weft" --data "$text" --bootstrap=local
refused 2 'give one of them' "$run" run "$dir/p2.weft" --data "$text" --bootstrap=local --transport=inproc
refused 2 'allowed: --bootstrap=mpi' "$run" run "$dir/p2.weft" --data "$text" --bootstrap=env --transport=mpi
# Without a GPU every rank fails, and one reports it.
CUDA_VISIBLE_DEVICES= refused 1 'backend cuda: ' "$run" run "$dir/p2d2.weft" --data "$text" --backend=cuda \
  --bootstrap=local
refused 1 'WORLD_SIZE, RANK, MASTER_ADDR, MASTER_PORT, WEFT_JOB_SECRET are not set' "$run" run "$dir/p2.weft" --data "$text" --bootstrap=env
refused 1 'start it with mpirun' "$run" run "$dir/p2.weft" --data "$text" --bootstrap=mpi
refused 1 "RANK='two' must be a rank" env RANK=two WORLD_SIZE=2 LOCAL_RANK=0 "$run" run "$dir/p2.weft" --data "$text" \
  --bootstrap=env
refused 1 'MASTER_ADDR, MASTER_PORT, WEFT_JOB_SECRET are not set' env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 \
  "$run" run "$dir/p2.weft" --data "$text"
refused 1 'the launcher started 3 processes, but the program has 2 ranks' as_rank 0 3 29500 \
  "$run" run "$dir/p2.weft" --data "$text"
refused 1 'no MPI launcher has started this process.*mpirun -n RANKS weft run' "$run" run "$dir/p2.weft" --data "$text" \
  --transport=mpi
refused 1 "MASTER_ADDR='0.0.0.0' means all addresses" env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=0.0.0.0 \
  MASTER_PORT=29500 WEFT_JOB_SECRET=$secret "$run" run "$dir/p2.weft" --data "$text"
mkdir -p "$dir/folder"
refused 1 "--fault-report: $dir/folder: is a folder; give a file, e.g. $dir/folder/weft-fault.json" \
  "$run" run "$dir/p2.weft" --data "$text" --fault-report "$dir/folder"
refused 1 '--fault-report: /nonexistent/f-0.json: ' "$run" run "$dir/p2.weft" --data "$text" \
  --fault-report /nonexistent/f.json
[[ ! -s $dir/out ]] || { cat "$dir/out"; fail "a report that cannot be written is found after the start"; }
port=$(free_port)
WEFT_RENDEZVOUS_TIMEOUT=1 refused 1 "rank 1 of 2 did not connect to 127.0.0.1:$port within [01]" \
  as_rank 0 2 "$port" "$run" run "$dir/p2.weft" --data "$text"
# A process with another secret, and two processes with the same rank.
port=$(free_port)
WEFT_RENDEZVOUS_TIMEOUT=8 as_rank 0 2 "$port" "$run" run "$dir/p2.weft" --data "$text" > /dev/null 2> "$dir/err.0" &
zero=$!
secret=another-secret-of-32-characters.
refused 1 "refuses the secret of rank 1 (WEFT_JOB_SECRET)" as_rank 1 2 "$port" "$run" run "$dir/p2.weft" --data "$text"
secret=0123456789abcdef0123456789abcdef
refused 1 "rank 0 is connected already\|the port is taken" as_rank 0 2 "$port" "$run" run "$dir/p2.weft" --data "$text"
as_rank 1 2 "$port" "$run" run "$dir/p2.weft" --data "$text" > /dev/null 2> "$dir/err.1" || { cat "$dir/err.1"; fail "rank 1"; }
wait $zero || { cat "$dir/err.0"; fail "rank 0 after a wrong secret"; }
echo "all as expected"
