// RUN: weft-opt %s --weft-shard-states="stage=2 members=3" -split-input-file -verify-diagnostics

module {
  // expected-error@+1 {{[shard_states_c2] mesh axis data has 3 ranks, which must divide the rank's 32 elements of parameter 't0' for plan.zero; nearest valid: 2 or 4}}
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [9] : tensor<9xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    // expected-error@+1 {{[shard_states_c3] needs a `layer`}}
    %w0 = weft.parameter 0 : tensor<9xf32>
    weft.yield %losses : tensor<1xf64>
  }
}
