// A product sharded over x, y and z: its backward, and what is saved of it.
// RUN: weft-opt %s --weft-partition-stages --weft-build-segments | FileCheck %s
// RUN: weft-opt %s --weft-partition-stages --weft-build-segments="recompute=layers recompute-layers=1" | FileCheck %s --check-prefix=AGAIN
// RUN: weft-opt %s --weft-partition-stages --weft-build-segments="whole-backward=false split-backward" | FileCheck %s --check-prefix=HALVES

module attributes {weft.training = {accumulation = "in_order", clip_norm = 0.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @wte index 0 shape [7, 4] : tensor<8x4xbf16> {uses = 2 : i32}
  weft.tensor @w index 1 shape [8] : tensor<8xbf16>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xbf16>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xbf16>) -> tensor<6x4xbf16>
    %f = weft.fan_out %x over {x = array<i64>} members 2 tensor "ring" {layer = 1 : i32, name = "fc.in"} : tensor<6x4xbf16>
    %part = weft.parameter 1 {layer = 1 : i32} : tensor<8xbf16>
    %w = weft.group_all_gather (%part) over {z = array<i64>} members 2 gather_weights "ring" {blocking, layer = 1 : i32, name = "fc.w"} : (tensor<8xbf16>) -> tensor<4x4xbf16>
    %p = weft.matmul %f, %w {layer = 1 : i32, name = "fc"} : (tensor<6x4xbf16>, tensor<4x4xbf16>) -> tensor<6x4xbf16>
    %r = weft.group_all_reduce (%p) over {y = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "fc.sum"} : (tensor<6x4xbf16>) -> tensor<6x4xbf16>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8x4xbf16>
    %logits = weft.matmul %r, %head {layer = 2 : i32, name = "head", transpose_b} : (tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xbf16>
    %targets = weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 7 : i64} : (tensor<6x8xbf16>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// The gathered weight is not saved. A fan-out is replaced by its value.
// CHECK-LABEL: weft.segment @stage0.forward forward
// CHECK-SAME: -> (<saved>, <saved use 1>, <saved use 2>, <saved use 3>, <saved use 4>, <saved use 5>, <local_losses>)
// CHECK-NOT: weft.fan_out
// CHECK: %[[X:.*]] = weft.embedding
// CHECK: %[[W:.*]] = weft.group_all_gather(%{{.*}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking
// CHECK: %[[P:.*]] = weft.matmul %[[X]], %[[W]]
// CHECK: %[[R:.*]] = weft.group_all_reduce(%[[P]]) over {y = array<i64>} members 2 tensor
// CHECK: weft.return %{{.*}}, %[[X]], %[[R]], %{{.*}}, %{{.*}}, %{{.*}}

// The sum over y passes its gradient on, and the weight is gathered again. The gradient of the value that fanned out is
// summed over x. The gradient of the weight is computed in the gradient type and scattered into the gradient buffers.
// CHECK-LABEL: weft.segment @stage0.backward backward
// CHECK: %[[DR:.*]] = weft.matmul {{.*}}name = "head.dx"
// CHECK: %[[W:.*]] = weft.group_all_gather({{.*}}name = "fc.w", part = "input"
// CHECK: %[[DP:.*]] = weft.matmul %[[DR]], %[[W]] {layer = 1 : i32, name = "fc.dx", part = "input", transpose_b}
// CHECK: %[[DW:.*]] = weft.matmul %{{.*}}, %[[DR]] {layer = 1 : i32, name = "fc.dw", part = "weight", transpose_a} : (tensor<6x4xbf16>, tensor<6x4xbf16>) -> tensor<4x4xf32>
// CHECK: weft.group_reduce_scatter(%[[DW]]) init(%{{.*}}) over {z = array<i64>} members 2 scatter_gradients "ring" {blocking, layer = 1 : i32, name = "fc.w.scatter", part = "weight"} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[DX:.*]] = weft.group_all_reduce(%[[DP]]) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "fc.in.dx", part = "input"}
// CHECK: weft.embedding_backward %{{.*}}, %[[DX]]

// One gather serves both the recomputation and the gradient.
// AGAIN-LABEL: weft.segment @stage0.backward backward
// AGAIN: weft.group_all_gather
// AGAIN-NOT: weft.group_all_gather
// AGAIN-LABEL: weft.segment @rank0

// HALVES-LABEL: weft.segment @stage0.backward_input backward_input
// HALVES: weft.group_all_gather
// HALVES: weft.group_all_reduce
// HALVES-NOT: weft.group_reduce_scatter
// HALVES-LABEL: weft.segment @stage0.backward_weight backward_weight
// HALVES-NOT: weft.group_all_gather
// HALVES: weft.group_reduce_scatter
