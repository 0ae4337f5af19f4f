// RUN: weft-opt %s --weft-build-segments="recompute=every recompute-every=0" -verify-diagnostics

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  // expected-error@+1 {{[build_segments_c12] recompute.every = 0; it must be at least 1}}
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %w {layer = 0 : i32, stage = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %targets = weft.load_targets {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %x, %targets, %losses {layer = 0 : i32, stage = 0 : i32, loss_weight = 0.1 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}
