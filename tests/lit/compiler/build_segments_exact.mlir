// Exact accumulation: gradients are computed separately and added to accumulators. The accumulators of a tensor's two
// uses are merged, rounded once, and left at zero.
// RUN: weft-opt %s --weft-partition-stages=stages=1 --weft-build-segments | FileCheck %s

module attributes {weft.training = {accumulation = "exact", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.9 : f64}} {
  weft.tensor @wte index 0 shape [7, 4] : tensor<8x4xf32> {uses = 2 : i32, weight_decay = 0.5 : f64}
  weft.tensor @gamma index 1 shape [4] : tensor<4xf32>
  weft.tensor @beta index 2 shape [4] : tensor<4xf32>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %g = weft.parameter 1 {layer = 1 : i32} : tensor<4xf32>
    %b = weft.parameter 2 {layer = 1 : i32} : tensor<4xf32>
    %n, %mean, %rstd = weft.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64, layer = 1 : i32, name = "ln"} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>)
    %a = weft.gelu %n {layer = 1 : i32, name = "act"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %r = weft.add %x, %a {layer = 1 : i32, name = "residual"} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8x4xf32>
    %logits = weft.matmul %r, %head {layer = 2 : i32, name = "head", transpose_b} : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
    %targets = weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 7 : i64} : (tensor<6x8xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK-LABEL: weft.segment @stage0.backward
// CHECK: %[[DW:.*]] = weft.matmul %{{[^ ]*}}, %{{[^ ]*}} {layer = 2 : i32, name = "head.dw", part = "weight", transpose_a}
// CHECK: weft.exact_accumulate %[[DW]], %{{.*}} {layer = 2 : i32, name = "head.exact0", part = "weight"}
// CHECK-LABEL: weft.segment @rank0.grad_norm
// CHECK-SAME: %[[ACC0:.*]]: tensor<8x4x!weft.exact192> as <grad_accumulator tensor 0>, %[[ACC1:.*]]: tensor<8x4x!weft.exact192> as <grad_accumulator tensor 0 use 1>
// CHECK: %[[SUM:.*]] = weft.add %[[ACC0]], %[[ACC1]]
// CHECK: %[[G:.*]] = weft.exact_round %[[SUM]]
// CHECK-COUNT-2: weft.fill {{.*}} : tensor<8x4x!weft.exact192>
// CHECK: weft.squared_norm %[[G]]
// CHECK-LABEL: weft.segment @rank0.optimizer_step
// CHECK: weft.sgd_step %{{.*}}, %{{.*}}, %{{.*}} {momentum = 9.0
