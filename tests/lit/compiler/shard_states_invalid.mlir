// RUN: weft-opt %s --weft-shard-states="stage=2 members=3" -verify-diagnostics

module {
  weft.tensor @t0 index 0 shape [9] : tensor<9xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    // expected-error@+1 {{[shard_states_c3] needs a `layer`}}
    %w0 = weft.parameter 0 : tensor<9xf32>
    weft.yield %losses : tensor<1xf64>
  }
}
