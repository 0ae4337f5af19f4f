// RUN: weft-opt %s --weft-shard="x=2 y=2 z=2" -split-input-file -verify-diagnostics

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4, 4, 1, 1] : tensor<4x4x1x1xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %x = weft.parameter 0 : tensor<8x4xf32>
    %f = weft.parameter 1 : tensor<4x4x1x1xf32>
    // expected-error@+1 {{[shard_c16] 'conv2d': only a convolution of an activation with a parameter can be cut over x and y}}
    %y = weft.conv2d %x, %f {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<4x4x1x1xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [3, 4, 1, 1] : tensor<3x4x1x1xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %x = weft.load_noise {sequence = 4 : i64} : tensor<8x4xf32>
    %w = weft.parameter 0 : tensor<3x4x1x1xf32>
    // expected-error@+1 {{[shard_c1] 'conv2d': 3 output channels cannot be cut over axis x of plan.mesh, which has size 2; nearest valid: 1 or 3}}
    %y = weft.conv2d %x, %w {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<3x4x1x1xf32>) -> tensor<8x3xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

// A row per sample that is whole, like the sines of a time, scales a value that is sharded.
module {
  weft.tensor @t0 index 0 shape [4, 4, 1, 1] : tensor<4x4x1x1xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %x = weft.load_noise {sequence = 4 : i64} : tensor<8x4xf32>
    %w = weft.parameter 0 : tensor<4x4x1x1xf32>
    %y = weft.conv2d %x, %w {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<4x4x1x1xf32>) -> tensor<8x4xf32>
    %t = weft.load_timesteps {diffusion_steps = 10 : i64} : tensor<2xi32>
    %e = weft.timestep_embedding %t {timestep_scale = 1.0 : f64} : (tensor<2xi32>) -> tensor<2x8xf32>
    // expected-error@+1 {{[shard_c18] 'scale_shift': scales and shifts must be cut like the values that they apply to}}
    %z = weft.scale_shift %y, %e {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}
