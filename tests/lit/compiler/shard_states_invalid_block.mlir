// RUN: weft-opt %s --weft-shard-states="stage=2 members=4 block=2" -split-input-file -verify-diagnostics

// expected-error@+1 {{[shard_states_c1] stage must be 0 to 3, members at least 1, and block 0 or members; got stage = 2, members = 4, block = 2}}
module {
}
