// Backwards in two halves; the first half recomputes the layer.
// RUN: weft-opt %s --weft-partition-stages="stages=2 layers-per-stage=2,1" --weft-build-segments="recompute=layers recompute-layers=1 whole-backward=false split-backward placement=0,0" | FileCheck %s

module attributes {weft.training = {accumulation = "in_order", clip_norm = 0.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @wte index 0 shape [7, 4] : tensor<8x4xf32> {uses = 2 : i32}
  weft.tensor @gamma index 1 shape [4] : tensor<4xf32>
  weft.tensor @beta index 2 shape [4] : tensor<4xf32>
  weft.tensor @w index 3 shape [4, 4] : tensor<4x4xf32>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %g = weft.parameter 1 {layer = 1 : i32} : tensor<4xf32>
    %b = weft.parameter 2 {layer = 1 : i32} : tensor<4xf32>
    %n, %mean, %rstd = weft.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64, layer = 1 : i32, name = "ln"} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>)
    %w = weft.parameter 3 {layer = 1 : i32} : tensor<4x4xf32>
    %r = weft.matmul %n, %w {layer = 1 : i32, name = "fc"} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8x4xf32>
    %logits = weft.matmul %r, %head {layer = 2 : i32, name = "head", transpose_b} : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
    %targets = weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 7 : i64} : (tensor<6x8xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK-NOT: stage0.backward backward
// The first stage passes no gradient on. The second half reads from the first half the recomputed values and the
// gradients. The incoming gradient is copied, so that its buffer becomes free.
// CHECK-LABEL: weft.segment @stage0.backward_input backward_input stage 0
// CHECK-SAME: (%[[DY:.*]]: tensor<6x4xf32> as <output_grad>, %[[X:.*]]: tensor<6x4xf32> as <saved use 1>, %[[G:.*]]: tensor<4xf32> as <param tensor 1>, %[[B:.*]]: tensor<4xf32> as <param tensor 2>, %[[W:.*]]: tensor<4x4xf32> as <param tensor 3>)
// CHECK-SAME: -> (<saved_grad>, <saved_grad use 1>, <saved_grad use 2>, <saved_grad use 3>, <saved_grad use 4>, <saved_grad use 5>)
// CHECK: %[[DN:.*]] = weft.matmul %[[DY]], %[[W]] {layer = 1 : i32, name = "fc.dx", part = "input", transpose_b}
// CHECK: %[[N:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = weft.layer_norm %[[X]], %[[G]], %[[B]] {{.*}}part = "recompute"
// CHECK: %[[DX:.*]] = weft.layer_norm_backward %[[DN]], %[[X]], %[[G]], %[[MEAN]], %[[RSTD]]
// CHECK: %[[COPY:.*]] = weft.cast %[[DY]] {name = "copy", part = "input"}
// CHECK: weft.return %[[N]], %[[COPY]], %[[DN]], %[[MEAN]], %[[RSTD]], %[[DX]]

// CHECK-LABEL: weft.segment @stage0.backward_weight backward_weight stage 0
// CHECK-SAME: (%[[T:.*]]: tensor<6xi32> as <saved>, %[[X:.*]]: tensor<6x4xf32> as <saved use 1>,
// CHECK-SAME: as <grad tensor 3>,
// CHECK-SAME: %[[N:.*]]: tensor<6x4xf32> as <saved_grad>, %[[DY:.*]]: tensor<6x4xf32> as <saved_grad use 1>, %[[DN:.*]]: tensor<6x4xf32> as <saved_grad use 2>, %[[MEAN:.*]]: tensor<6xf32> as <saved_grad use 3>, %[[RSTD:.*]]: tensor<6xf32> as <saved_grad use 4>, %[[DX:.*]]: tensor<6x4xf32> as <saved_grad use 5>)
// CHECK-SAME: -> (<grad tensor 0>, <grad tensor 1>, <grad tensor 2>, <grad tensor 3>)
// CHECK: weft.matmul %[[N]], %[[DY]] init
// CHECK: weft.layer_norm_backward_weight %[[DN]], %[[X]], %[[MEAN]], %[[RSTD]] init
// CHECK: weft.embedding_backward %[[T]], %[[DX]] init

// CHECK-LABEL: weft.segment @stage1.backward_input backward_input stage 1
// CHECK: %[[DL:.*]] = weft.cross_entropy_backward
// CHECK: %[[DX:.*]] = weft.matmul %[[DL]], %{{.*}} {layer = 2 : i32, name = "head.dx", part = "input"}
// CHECK: weft.return %[[DX]], %[[DL]]
// CHECK-LABEL: weft.segment @stage1.backward_weight backward_weight stage 1
// CHECK: weft.matmul %{{.*}} init {{.*}}part = "weight"

// Both stages are on rank 0, which adds the gradients of the table's two uses.
// CHECK-LABEL: weft.segment @rank0.grad_norm grad_norm stage 0 rank 0
// CHECK: %[[SUM:.*]] = weft.add {{.*}} {name = "sum uses of wte"}
// CHECK: weft.squared_norm %[[SUM]], {{.*}} slot = 0
// CHECK-NOT: @rank1
