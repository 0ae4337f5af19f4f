// Mixed precision: bf16 inputs, fp32 gradients, an fp32 master copy that is rounded into the parameter.
// RUN: weft-opt %s --weft-partition-stages=stages=1 --weft-build-segments | FileCheck %s
// RUN: weft-opt %s --weft-partition-stages=stages=1 --weft-build-segments=evaluate | FileCheck %s --check-prefix=EVALUATE

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "adamw", beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64}} {
  weft.tensor @wte index 0 shape [7, 4] : tensor<8x4xbf16> {uses = 2 : i32, weight_decay = 0.5 : f64}
  weft.tensor @gamma index 1 shape [4] : tensor<4xbf16>
  weft.tensor @beta index 2 shape [4] : tensor<4xbf16>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xbf16>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xbf16>) -> tensor<6x4xbf16>
    %g = weft.parameter 1 {layer = 1 : i32} : tensor<4xbf16>
    %b = weft.parameter 2 {layer = 1 : i32} : tensor<4xbf16>
    %n, %mean, %rstd = weft.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64, layer = 1 : i32, name = "ln"} : (tensor<6x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<6x4xbf16>, tensor<6xf32>, tensor<6xf32>)
    %a = weft.gelu %n {layer = 1 : i32, name = "act"} : (tensor<6x4xbf16>) -> tensor<6x4xbf16>
    %r = weft.add %x, %a {layer = 1 : i32, name = "residual"} : (tensor<6x4xbf16>, tensor<6x4xbf16>) -> tensor<6x4xbf16>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8x4xbf16>
    %logits = weft.matmul %r, %head {layer = 2 : i32, name = "head", transpose_b} : (tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xbf16>
    %targets = weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 7 : i64} : (tensor<6x8xbf16>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK-LABEL: weft.segment @stage0.backward
// CHECK: weft.matmul %{{.*}}, %{{[^ ]*}} init %{{[^ ]*}} {{.*}} : (tensor<6x8xbf16>, tensor<6x4xbf16>, tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK-LABEL: weft.segment @rank0.grad_norm
// CHECK: weft.add {{.*}}name = "sum uses of wte"
// CHECK-LABEL: weft.segment @rank0.optimizer_step
// CHECK-SAME: tensor<8x4xf32> as <master tensor 0>
// CHECK-SAME: -> (<master tensor 0>, <moment1 tensor 0>, <moment2 tensor 0>, <param tensor 0>
// CHECK: weft.adamw {{.*}} -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xbf16>)

// EVALUATE: weft.segment @stage0.evaluate evaluate stage 0
// EVALUATE-SAME: -> (<local_losses>)
// EVALUATE-NOT: weft.segment
