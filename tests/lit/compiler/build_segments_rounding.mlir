// Stochastic rounding: updates of weights in half precision name the tensor whose random numbers they use.
// RUN: weft-opt %s --split-input-file --weft-partition-stages=stages=1 --weft-build-segments | FileCheck %s

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "adamw", beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, stochastic_rounding}} {
  weft.tensor @wte index 0 shape [8, 4] : tensor<8x4xbf16> {weight_decay = 0.5 : f64}
  weft.tensor @gamma index 1 shape [4] : tensor<4xbf16>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xbf16>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xbf16>) -> tensor<6x4xbf16>
    %g = weft.parameter 1 {layer = 0 : i32} : tensor<4xbf16>
    %n, %rstd = weft.rms_norm %x, %g {epsilon = 1.0e-5 : f64, layer = 0 : i32, name = "norm"} : (tensor<6x4xbf16>, tensor<4xbf16>) -> (tensor<6x4xbf16>, tensor<6xf32>)
    %targets = weft.load_targets {layer = 0 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %n, %targets, %losses {layer = 0 : i32, loss_weight = 0.25 : f64, name = "loss", vocabulary = 4 : i64} : (tensor<6x4xbf16>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK-LABEL: weft.segment @rank0.optimizer_step
// CHECK: weft.adamw {{.*}} name = "adamw wte", rounding_site = 1 : i32
// CHECK: weft.adamw {{.*}} name = "adamw gamma", rounding_site = 2 : i32

// -----

// Weights in the optimizer's own type are not rounded.
module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64, stochastic_rounding}} {
  weft.tensor @wte index 0 shape [8, 4] : tensor<8x4xf32> {weight_decay = 0.5 : f64}
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %targets = weft.load_targets {layer = 0 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %x, %targets, %losses {layer = 0 : i32, loss_weight = 0.25 : f64, name = "loss", vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK-LABEL: weft.segment @rank0.optimizer_step
// CHECK: weft.sgd_step
// CHECK-NOT: rounding_site
