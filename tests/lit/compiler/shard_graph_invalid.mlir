// RUN: weft-opt %s --weft-shard="x=2 y=2 z=2" -split-input-file -verify-diagnostics

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4, 3] : tensor<4x3xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %w = weft.parameter 1 : tensor<4x3xf32>
    // expected-error@+1 {{[shard_c1] 'matmul': 3 columns of a weight cannot be cut over axis x of plan.mesh, which has size 2; nearest valid: 1 or 3}}
    %y = weft.matmul %x, %w : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %w = weft.parameter 3 : tensor<4x4xf32>
    // expected-error@+1 {{[shard_c3] 'matmul': reads tensor 3, which is not declared}}
    %y = weft.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4, 4] : tensor<4x4xf32>
  weft.tensor @t2 index 2 shape [4] : tensor<4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %g = weft.parameter 2 : tensor<4xf32>
    %n, %nr = weft.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
    %w = weft.parameter 1 : tensor<4x4xf32>
    %y = weft.matmul %n, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %g1 = weft.parameter 2 use 1 : tensor<4xf32>
    // expected-error@+1 {{[shard_c4] 'rms_norm': reads a parameter that another place of the model needs to be cut differently over x and y}}
    %m, %mr = weft.rms_norm %y, %g1 {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [2, 2] : tensor<2x2xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 1 : tensor<2x2xf32>
    // expected-error@+1 {{[shard_c5] 'embedding': the rank's 1x1 elements of a weight cannot be cut over axis z of plan.mesh, which has size 2; nearest valid: 1}}
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<2x2xf32>) -> tensor<8x2xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4, 12] : tensor<4x12xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %w = weft.parameter 1 : tensor<4x12xf32>
    %y = weft.matmul %x, %w : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
    // expected-error@+1 {{[shard_c6] 'dropout': the input of dropout needs its columns in 1 run, because axis x cuts them; it has 3}}
    %q = weft.dropout %y {dropout = 0.1 : f64} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %o, %lse = weft.attention %q {heads = 2 : i64, scale = 1.0 : f64, sequence = 4 : i64} : (tensor<8x12xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %w = weft.parameter 0 : tensor<8x4xf32>
    // expected-error@+1 {{[shard_c7] 'gelu': reads a parameter, but has no rule}}
    %y = weft.gelu %w : (tensor<8x4xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4, 4] : tensor<4x4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %w = weft.parameter 1 : tensor<4x4xf32>
    %y = weft.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error@+1 {{[shard_c8] 'swiglu': its operands are cut differently over x and y}}
    %z = weft.swiglu %x, %y : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
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
    // expected-error@+1 {{[shard_c9] 'matmul': only products of an activation and a parameter}}
    %y = weft.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4] : tensor<4xf32>
  weft.tensor @t2 index 2 shape [4] : tensor<4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %g = weft.parameter 1 : tensor<4xf32>
    %gb = weft.parameter 2 : tensor<4xf32>
    // expected-error@+1 {{[shard_c10] 'layer_norm': only its derivative may read statistics of a norm}}
    %n, %nm, %nr = weft.layer_norm %x, %g, %gb {epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
    %c = weft.cast %nm : (tensor<8xf32>) -> tensor<8xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4, 4] : tensor<4x4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %w = weft.parameter 1 : tensor<4x4xf32>
    %q = weft.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error@+1 {{[shard_c14] 'attention': q, k and v are cut differently over x and y}}
    %o, %lse = weft.attention %q, %x, %x {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.0 : f64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

module {
  weft.tensor @t0 index 0 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @t1 index 1 shape [4] : tensor<4xf32>
  weft.graph @m {
  ^bb0(%losses: tensor<1xf64>):
    %t = weft.load_tokens : tensor<8xi32>
    %w0 = weft.parameter 0 : tensor<8x4xf32>
    %x = weft.embedding %t, %w0 : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %b = weft.parameter 1 : tensor<4xf32>
    // expected-error@+1 {{[shard_graph_c3] has no rule for how it is split over x, y and z}}
    %y = weft.bias_add %x, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<1xf64>
  }
}

// -----

// expected-error@+1 {{[shard_graph_c1] must have one weft.graph, but has 0}}
module {
}
