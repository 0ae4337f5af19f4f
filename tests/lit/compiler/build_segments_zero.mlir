// ZeRO stage 2: the backward scatters a layer's gradients in one collective, into the rank's part; the forward reads
// whole parameters. Stage 1: the end of the step works on parts that the rank level makes from whole gradients.
// RUN: weft-opt %s --weft-shard-states="stage=2 members=2" --weft-partition-stages --weft-build-segments | FileCheck %s --check-prefix=TWO
// RUN: weft-opt %s --weft-shard-states="stage=1 members=2" --weft-partition-stages --weft-build-segments | FileCheck %s --check-prefix=ONE

// TWO-LABEL: weft.segment @stage0.forward
// TWO-NOT: weft.group_
// TWO-NOT: weft.cut_gradients
// TWO-LABEL: weft.segment @stage0.backward
// TWO: weft.group_reduce_scatter({{.*}}) init({{.*}}) over {data = array<i64>} members 2 scatter_gradients "ring" {blocking, layer = 1 : i32, name = "layer1.zero.scatter", part = "weight"} : (tensor<4xf32>, tensor<4x4xf32>, tensor<2xf32>, tensor<8xf32>) -> (tensor<2xf32>, tensor<8xf32>)
// TWO-LABEL: weft.segment @rank0.optimizer_step
// TWO-SAME: %[[G:[a-z0-9]+]]: tensor<8xf32> as <grad tensor 0>
// TWO: %[[W:[a-z_0-9]+]], %[[COPY:[a-z_0-9]+]] = weft.sgd_step %[[G]]
// TWO: weft.return %{{.*}}, %[[W]], %[[COPY]]

// ONE-LABEL: weft.segment @stage0.backward
// ONE-SAME: tensor<4x4xf32> as <grad tensor 0>
// ONE-NOT: weft.group_
// ONE-LABEL: weft.segment @rank0.grad_norm
// ONE-SAME: tensor<8xf32> as <grad_part tensor 0>
// ONE: weft.squared_norm
// ONE-LABEL: weft.segment @rank0.optimizer_step
// ONE-SAME: %[[M:[a-z0-9]+]]: tensor<8xf32> as <master tensor 0>
// ONE-SAME: %[[G:[a-z0-9]+]]: tensor<8xf32> as <grad_part tensor 0>
// ONE-SAME: -> (<norm>, <master tensor 0>, <param_part tensor 0>, {{.*}}, <grad tensor 0>, <grad tensor 1>, <grad tensor 2>)
// ONE: weft.sgd_step %[[G]], %[[M]]
// ONE: weft.fill {name = "zero gradient of w", value = 0.000000e+00 : f64} : tensor<4x4xf32>
module attributes {weft.training = {accumulation = "in_order", clip_norm = 0.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [4, 4] : tensor<4x4xbf16>
  weft.tensor @gamma index 1 shape [4] : tensor<4xbf16>
  weft.tensor @wte index 2 shape [8, 4] : tensor<8x4xbf16>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 2 {layer = 0 : i32} : tensor<8x4xbf16>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xbf16>) -> tensor<6x4xbf16>
    %gamma = weft.parameter 1 {layer = 1 : i32} : tensor<4xbf16>
    %n, %r = weft.rms_norm %x, %gamma {epsilon = 1.0e-5 : f64, layer = 1 : i32, name = "norm"} : (tensor<6x4xbf16>, tensor<4xbf16>) -> (tensor<6x4xbf16>, tensor<6xf32>)
    %w = weft.parameter 0 {layer = 1 : i32} : tensor<4x4xbf16>
    %logits = weft.matmul %n, %w {layer = 1 : i32, name = "head"} : (tensor<6x4xbf16>, tensor<4x4xbf16>) -> tensor<6x4xbf16>
    %targets = weft.load_targets {layer = 1 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 1 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 4 : i64} : (tensor<6x4xbf16>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}
