// RUN: weft-opt %s --weft-shard="zero=3" -split-input-file -verify-diagnostics

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    // expected-error@+1 {{[shard_c13] 'embedding': the rank's 32 elements of a parameter cannot be cut over the 3 data replicas of plan.zero; nearest valid: 2 or 4}}
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}
