// Loss scaling: the derivative of the loss is multiplied by the scale, a number in its weight or an argument. The
// optimizer's ops undo the scale and clip, so there is no scale_gradients.
// RUN: weft-opt %s --split-input-file --weft-partition-stages=stages=1 --weft-build-segments | FileCheck %s

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f16, growth_interval = 100 : i32, loss_scale = 1024.0 : f64, master = f32, moments = f32, optimizer = "adamw", beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64}} {
  weft.tensor @wte index 0 shape [8, 4] : tensor<8x4xf16> {weight_decay = 0.5 : f64}
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf16>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf16>) -> tensor<6x4xf16>
    %targets = weft.load_targets {layer = 0 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %x, %targets, %losses {layer = 0 : i32, loss_weight = 0.25 : f64, name = "loss", vocabulary = 4 : i64} : (tensor<6x4xf16>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK-LABEL: weft.segment @stage0.forward
// CHECK: weft.cross_entropy {{.*}} loss_weight = 2.500000e-01
// CHECK-LABEL: weft.segment @stage0.backward
// CHECK-SAME: %[[SCALE:[^ ]*]]: tensor<3xf64> as <loss_scale>
// CHECK: weft.cross_entropy_backward %{{.*}}, %{{.*}}, %{{.*}}, %[[SCALE]] {{.*}} loss_weight = 2.500000e-01
// CHECK-NOT: @rank0.scale_gradients
// CHECK-LABEL: weft.segment @rank0.optimizer_step
// CHECK-SAME: %[[SCALE:[^ ]*]]: tensor<3xf64> as <loss_scale>
// CHECK: %[[NORM:.*]] = weft.norm_total %{{.*}}, %[[SCALE]] {clip_norm = 1.000000e+00 : f64
// CHECK: weft.adamw %{{.*}}, %[[NORM]], %[[SCALE]] {{.*}} name = "adamw wte"
// CHECK: weft.update_loss_scale %[[NORM]], %[[SCALE]] {growth_interval = 100 : i32, loss_scale = 1.024000e+03 : f64

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, loss_scale = 1024.0 : f64, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
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

// CHECK-LABEL: weft.segment @stage0.forward
// CHECK: weft.cross_entropy {{.*}} loss_weight = 2.500000e-01
// CHECK-LABEL: weft.segment @stage0.backward
// CHECK: weft.cross_entropy_backward %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {{.*}} loss_weight = 2.560000e+02
// CHECK-NOT: @rank0.scale_gradients
// CHECK-LABEL: weft.segment @rank0.optimizer_step
// CHECK: %[[NORM:.*]] = weft.norm_total %{{[^ ]*}} {clip_norm = 1.000000e+00 : f64, loss_scale = 1.024000e+03
// CHECK: weft.sgd_step %{{.*}} scaled by %[[NORM]] {
// CHECK-NOT: weft.update_loss_scale
