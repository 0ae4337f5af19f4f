// RUN: weft-opt %s --weft-shard="z=2" -split-input-file -verify-diagnostics

module {
  weft.tensor @t0 index 0 shape [8, 8] : tensor<8x8xf32>
  weft.tensor @t1 index 1 shape [8] : tensor<8xf32>
  weft.tensor @t2 index 2 shape [8] : tensor<8xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x8xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %g = weft.parameter 1 : tensor<8xf32>
    %gb = weft.parameter 2 : tensor<8xf32>
    %n, %nm, %nr = weft.layer_norm %x, %g, %gb {epsilon = 1.0e-5 : f64} : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
    // expected-error@+1 {{[shard_c2] 'layer_norm': an operand must be a parameter}}
    %a, %am, %ar = weft.layer_norm %x, %nr, %nr {epsilon = 1.0e-5 : f64} : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
    weft.yield %losses : tensor<1xf64>
  }
}
