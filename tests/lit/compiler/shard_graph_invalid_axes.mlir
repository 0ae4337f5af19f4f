// RUN: weft-opt %s --weft-shard="x=0" -split-input-file -verify-diagnostics

// expected-error@+1 {{[shard_graph_c2] axes must have at least one rank, and y one with sequence-parallel; got x = 0, y = 1, z = 1}}
module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}
