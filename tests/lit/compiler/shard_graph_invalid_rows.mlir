// RUN: weft-opt %s --weft-shard="x=2 sequence-parallel sequence=4" -split-input-file -verify-diagnostics

module {
  weft.tensor @t0 index 0 shape [8, 12] : tensor<8x12xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x12xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    // expected-error@+1 {{[shard_c11] 'attention': attention needs whole sequences, but its rows are split over x}}
    %o, %lse = weft.attention %x {heads = 2 : i64, scale = 1.0 : f64, sequence = 4 : i64} : (tensor<8x12xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 8] : tensor<8x8xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x8xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %targets = weft.load_targets : tensor<8xi32>
    // expected-error@+1 {{[shard_c12] 'cross_entropy': the loss needs the logits of whole sequences, but rows are split over x}}
    %lse, %new = weft.cross_entropy %x, %targets, %losses {loss_weight = 0.1 : f64, vocabulary = 8 : i64} : (tensor<8x8xf32>, tensor<8xi32>, tensor<1xf64>) -> (tensor<8xf32>, tensor<1xf64>)
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 8] : tensor<8x8xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x8xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error@+1 {{[shard_c15] 'rope': rotation needs whole sequences, but its rows are split over x}}
    %y = weft.rope %x {sequence = 4 : i64, head_size = 4 : i64, base = 10000.0 : f64, magnitude = 1.0 : f64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4, 4, 1, 1] : tensor<4x4x1x1xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %w = weft.parameter 1 : tensor<4x4x1x1xf32>
    // expected-error@+1 {{[shard_c17] 'conv2d': a convolution needs whole images, but rows are split over x}}
    %y = weft.conv2d %x, %w {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<4x4x1x1xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}
