#!/bin/bash
# Runs the conformance suite in several processes. After the abort, processes leave without MPI_Finalize, so mpirun
# exits with an error; the test reads the result from the output instead.
set -uo pipefail
for ranks in 2 4; do
  output=$(tools/run_mpi.sh "$ranks" "$1" 2>&1)
  echo "$output"
  passed=$(grep -c ': ok$' <<<"$output")
  if [[ $passed -ne 8 ]] || grep -q ', rank [0-9]*: ' <<<"$output"; then
    echo "FAILED with $ranks ranks: $passed of 8 cases"
    exit 1
  fi
done
# Staged through pinned memory, on the host and on deferred devices.
for seed in 0 1 2; do
  output=$(tools/run_mpi.sh 2 "$1" staged "$seed" 2>&1)
  echo "$output"
  passed=$(grep -c ': ok$' <<<"$output")
  if [[ $passed -ne 8 ]] || grep -q ', rank [0-9]*: ' <<<"$output"; then
    echo "FAILED: staged, seed $seed: $passed of 8 cases"
    exit 1
  fi
done
# Like an MPI library that accepts device memory.
for seed in 1 2; do
  output=$(tools/run_mpi.sh 2 "$1" direct "$seed" 2>&1)
  echo "$output"
  passed=$(grep -c ': ok$' <<<"$output")
  if [[ $passed -ne 8 ]] || grep -q ', rank [0-9]*: ' <<<"$output"; then
    echo "FAILED: direct, seed $seed: $passed of 8 cases"
    exit 1
  fi
done
for ranks in 2 4; do
  output=$(tools/run_mpi.sh "$ranks" "$1" pipeline 2>&1)
  echo "$output"
  passed=$(grep -c ': ok$' <<<"$output")
  if [[ $passed -ne 5 ]]; then
    echo "FAILED with $ranks ranks: $passed of 5 pipelines"
    exit 1
  fi
done
for round in 1 2 3; do
  output=$(tools/run_mpi.sh 4 "$1" race 2>&1)
  echo "$output"
  winners=$(grep -c '^race: rank [0-3] won$' <<<"$output")
  if [[ $winners -ne 1 ]] || grep -q 'race, rank' <<<"$output"; then
    echo "FAILED: $winners ranks of 4 won the race of aborts"
    exit 1
  fi
done
