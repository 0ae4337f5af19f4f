// Two values cross to the next stage: the chain's last value, and another one by a skip connection. The gradients of
// the skip's readers in stage 0 and stage 1 are added layer by layer.
// RUN: weft-opt %s -weft-build-segments | FileCheck %s

// CHECK: module attributes {weft.skips = ["act"]
// CHECK-LABEL: weft.segment @stage0.forward forward stage 0
// CHECK-SAME: <output>, <output use 1>
// CHECK-LABEL: weft.segment @stage0.backward backward stage 0
// CHECK-SAME: %[[DY:.*]]: tensor<6x4xf32> as <output_grad>, %[[DS:.*]]: tensor<6x4xf32> as <output_grad use 1>
// CHECK-LABEL: weft.segment @stage1.forward forward stage 1
// CHECK-SAME: as <input>, %{{.*}}: tensor<6x4xf32> as <input use 1>
// CHECK-LABEL: weft.segment @stage1.backward backward stage 1
// CHECK: <input_grad>, <input_grad use 1>
module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %w {layer = 0 : i32, stage = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %y = weft.gelu %x {layer = 0 : i32, stage = 0 : i32, name = "act"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %v = weft.gelu %y {layer = 0 : i32, stage = 0 : i32, name = "last"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %z = weft.add %v, %y {layer = 1 : i32, stage = 1 : i32} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
    %targets = weft.load_targets {layer = 1 : i32, stage = 1 : i32} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %z, %targets, %losses {layer = 1 : i32, stage = 1 : i32, loss_weight = 0.1 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}
