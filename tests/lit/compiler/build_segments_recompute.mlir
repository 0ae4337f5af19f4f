// A recomputed layer saves only its input, and runs again in the backward right before its results are needed.
// RUN: weft-opt %s --weft-partition-stages=stages=1 --weft-build-segments=recompute=full | FileCheck %s
// RUN: weft-opt %s --weft-partition-stages=stages=1 --weft-build-segments="recompute=every recompute-every=2" | FileCheck %s --check-prefix=EVERY
// RUN: weft-opt %s --weft-partition-stages=stages=1 --weft-build-segments="recompute=layers recompute-layers=2" | FileCheck %s --check-prefix=LOSS

module attributes {weft.training = {accumulation = "in_order", clip_norm = 0.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "adamw", beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64}} {
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

// Saved: the embedding (input of layer 1), the residual (input of the head), logits, targets, lse. Not saved: tokens,
// which are loaded again, mean and rstd.
// CHECK-LABEL: weft.segment @stage0.forward
// CHECK: %[[X:.*]] = weft.embedding
// CHECK: %[[R:.*]] = weft.add
// CHECK: %[[LOGITS:.*]] = weft.matmul
// CHECK: %[[TARGETS:.*]] = weft.load_targets
// CHECK: %[[LSE:.*]], %[[NEW:.*]] = weft.cross_entropy
// CHECK: weft.return %[[X]], %[[R]], %[[LOGITS]], %[[TARGETS]], %[[LSE]], %[[NEW]]
// CHECK-LABEL: weft.segment @stage0.backward
// CHECK-NOT: weft.gelu %
// CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = weft.layer_norm %{{.*}} part = "recompute"
// CHECK-NEXT: weft.gelu_backward %{{.*}}, %[[N]]
// CHECK: %[[T:.*]] = weft.load_tokens {layer = 0 : i32, name = "tokens", part = "recompute"}
// CHECK-NEXT: weft.embedding_backward %[[T]]

// Without clipping there is no scaling; the norm comes first in the optimizer step.
// CHECK-NOT: scale_gradients
// CHECK-LABEL: weft.segment @rank0.optimizer_step
// CHECK-NEXT: weft.norm_total %{{.*}} {clip_norm = 0.000000e+00 : f64

// Every second layer without a loss: layer 0, but not layer 1.
// EVERY-LABEL: weft.segment @stage0.backward
// EVERY-NOT: weft.layer_norm %
// EVERY: weft.load_tokens {layer = 0 : i32, name = "tokens", part = "recompute"}

// The layer of the loss, because it is listed: recomputes logits and targets, but not the loss.
// LOSS-LABEL: weft.segment @stage0.backward
// LOSS: weft.matmul {{.*}} name = "head", part = "recompute", transpose_b}
// LOSS: weft.load_targets
// LOSS-NEXT: weft.cross_entropy_backward
// LOSS-NOT: weft.cross_entropy %
