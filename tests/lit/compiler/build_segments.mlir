// Two stages: embedding and one layer on the first, head and loss on the second. Both use the table.
// RUN: weft-opt %s --weft-partition-stages="stages=2 layers-per-stage=2,1" --weft-build-segments | FileCheck %s

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "adamw", beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64}} {
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

// CHECK: weft.tensor @wte
// CHECK-NOT: weft.graph

// The boundary tensor is the output. Values that the backward reads are saved, here tokens, the layer's input, and what
// layer_norm and gelu need. The activation itself is not saved.
// CHECK-LABEL: weft.segment @stage0.forward forward stage 0
// CHECK-SAME: (%[[WTE:.*]]: tensor<8x4xf32> as <param tensor 0>, %{{.*}}: tensor<4xf32> as <param tensor 1>, %{{.*}}: tensor<4xf32> as <param tensor 2>)
// CHECK-SAME: -> (<output>, <saved>, <saved use 1>, <saved use 2>, <saved use 3>, <saved use 4>)
// CHECK: %[[T:.*]] = weft.load_tokens
// CHECK: %[[X:.*]] = weft.embedding %[[T]], %[[WTE]]
// CHECK: %[[N:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = weft.layer_norm %[[X]]
// CHECK: %[[A:.*]] = weft.gelu %[[N]]
// CHECK: %[[R:.*]] = weft.add %[[X]], %[[A]]
// CHECK: weft.return %[[R]], %[[T]], %[[X]], %[[N]], %[[MEAN]], %[[RSTD]]

// The gradient reaches the embedding in two ways, last reader first. Weight gradients are added to the gradient
// buffers.
// CHECK-LABEL: weft.segment @stage0.backward backward stage 0
// CHECK-SAME: (%[[DY:.*]]: tensor<6x4xf32> as <output_grad>, %[[T:.*]]: tensor<6xi32> as <saved>, %[[X:.*]]: tensor<6x4xf32> as <saved use 1>, %[[N:.*]]: tensor<6x4xf32> as <saved use 2>, %[[MEAN:.*]]: tensor<6xf32> as <saved use 3>, %[[RSTD:.*]]: tensor<6xf32> as <saved use 4>, %[[G:.*]]: tensor<4xf32> as <param tensor 1>, %[[DWTE:.*]]: tensor<8x4xf32> as <grad tensor 0>, %[[DG:.*]]: tensor<4xf32> as <grad tensor 1>, %[[DB:.*]]: tensor<4xf32> as <grad tensor 2>)
// CHECK-SAME: -> (<grad tensor 0>, <grad tensor 1>, <grad tensor 2>)
// CHECK: %[[DN:.*]] = weft.gelu_backward %[[DY]], %[[N]] {layer = 1 : i32, name = "act.dx", part = "input"}
// CHECK: %[[DX:.*]] = weft.layer_norm_backward %[[DN]], %[[X]], %[[G]], %[[MEAN]], %[[RSTD]] {layer = 1 : i32, name = "ln.dx", part = "input"}
// CHECK: weft.layer_norm_backward_weight %[[DN]], %[[X]], %[[MEAN]], %[[RSTD]] init %[[DG]], %[[DB]] {layer = 1 : i32, name = "ln.dw", part = "weight"}
// CHECK: %[[SUM:.*]] = weft.add %[[DY]], %[[DX]]
// CHECK: weft.embedding_backward %[[T]], %[[SUM]] init %[[DWTE]] {layer = 0 : i32, name = "wte.dw", part = "weight"}

// The head's use of the table has its own gradient.
// CHECK-LABEL: weft.segment @stage1.forward forward stage 1
// CHECK-SAME: (%[[X:.*]]: tensor<6x4xf32> as <input>, %{{.*}}: tensor<8x4xf32> as <param tensor 0>, %[[L:.*]]: tensor<2xf64> as <local_losses>)
// CHECK: weft.cross_entropy %{{.*}}, %{{.*}}, %[[L]]
// CHECK-LABEL: weft.segment @stage1.backward backward stage 1
// CHECK: %[[DL:.*]] = weft.cross_entropy_backward
// CHECK: %[[DX:.*]] = weft.matmul %[[DL]], %{{.*}} {layer = 2 : i32, name = "head.dx", part = "input"} :
// CHECK: %[[DW:.*]] = weft.matmul %[[DL]], %{{.*}} init %{{.*}} {layer = 2 : i32, name = "head.dw", part = "weight", transpose_a} :
// CHECK: weft.return %[[DX]], %[[DW]]

// Every tensor's norm has its slot. Rank 0 holds all of the tensors first.
// CHECK-LABEL: weft.segment @rank0.grad_norm grad_norm stage 0 rank 0
// CHECK: weft.squared_norm %{{.*}}, %{{.*}} {name = "norm of wte", slot = 0 : i64}
// CHECK: weft.squared_norm {{.*}} slot = 1
// CHECK: weft.squared_norm {{.*}} slot = 2

// CHECK-LABEL: weft.segment @rank0.scale_gradients scale_gradients stage 0 rank 0
// CHECK: %[[NORM:.*]] = weft.norm_total %{{.*}} {clip_norm = 1.000000e+00 : f64
// CHECK-COUNT-3: weft.scale %[[NORM]]

// CHECK-LABEL: weft.segment @rank0.optimizer_step optimizer_step stage 0 rank 0
// CHECK: weft.adamw {{.*}} name = "adamw wte", weight_decay = 5.000000e-01
// CHECK: weft.adamw {{.*}} name = "adamw gamma", weight_decay = 0.000000e+00
// CHECK: weft.adamw {{.*}} name = "adamw beta"
// CHECK-COUNT-3: weft.fill {{.*}} value = 0.000000e+00

// The table's norm is counted on rank 0.
// CHECK-NOT: weft.segment @rank1.grad_norm
// CHECK-LABEL: weft.segment @rank1.optimizer_step optimizer_step stage 1 rank 1
// CHECK-SAME: as <grad tensor 0 use 1>
