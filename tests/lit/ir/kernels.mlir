// Every op prints as it was read.
// RUN: weft-opt %s | weft-opt | FileCheck %s
// RUN: weft-opt --mlir-print-op-generic %s | weft-opt | FileCheck %s

// CHECK-LABEL: weft.segment @forward evaluate stage 0
weft.segment @forward evaluate stage 0 (
    %table: tensor<8x4xf32> as <param tensor 0>, %gamma: tensor<4xf32> as <param tensor 1>,
    %beta: tensor<4xf32> as <param tensor 2>, %w: tensor<4x12xf32> as <param tensor 3>,
    %bias: tensor<12xf32> as <param tensor 4>, %losses: tensor<2xf64> as <local_losses>) -> (<local_losses>) {
  // CHECK: weft.load_tokens : tensor<6xi32>
  %tokens = weft.load_tokens : tensor<6xi32>
  // CHECK: weft.load_targets : tensor<6xi32>
  %targets = weft.load_targets : tensor<6xi32>
  // CHECK: weft.embedding %{{.*}}, %{{.*}} {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %e = weft.embedding %tokens, %table {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.position_embedding %{{.*}} {sequence = 3 : i64} : (tensor<8x4xf32>) -> tensor<6x4xf32>
  %p = weft.position_embedding %table {sequence = 3 : i64} : (tensor<8x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.add %{{.*}}, %{{.*}} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %x = weft.add %e, %p : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.add %{{.*}}, %{{.*}} init %{{.*}} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %x2 = weft.add %e, %p init %x : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64}
  %n, %mean, %rstd = weft.layer_norm %x2, %gamma, %beta {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>)
  // CHECK: weft.matmul %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<6x4xf32>, tensor<4x12xf32>, tensor<12xf32>) -> tensor<6x12xf32>
  %qkv = weft.matmul %n, %w bias %bias : (tensor<6x4xf32>, tensor<4x12xf32>, tensor<12xf32>) -> tensor<6x12xf32>
  // CHECK: weft.matmul %{{.*}}, %{{.*}} bias %{{.*}} init %{{.*}} :
  %qkv2 = weft.matmul %n, %w bias %bias init %qkv : (tensor<6x4xf32>, tensor<4x12xf32>, tensor<12xf32>, tensor<6x12xf32>) -> tensor<6x12xf32>
  // CHECK: weft.attention %{{.*}} {causal, dropout = 1.000000e-01 : f64, dropout_site = 3 : i32, heads = 2 : i64, scale = 5.000000e-01 : f64, sequence = 3 : i64}
  %o, %lse = weft.attention %qkv2 {causal, dropout = 0.1 : f64, dropout_site = 3 : i32, heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  // CHECK: weft.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, heads = 2 : i64, kv_heads = 1 : i64, scale = 5.000000e-01 : f64, sequence = 3 : i64, window = 2 : i64} : (tensor<6x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>)
  %o2, %lse2 = weft.attention %o, %lse, %lse {causal, heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5 : f64, sequence = 3 : i64, window = 2 : i64} : (tensor<6x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  // CHECK: weft.rms_norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64}
  %r, %rrms = weft.rms_norm %o2, %gamma {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>)
  // CHECK: weft.rope %{{.*}} {base = 1.000000e+04 : f64, factor = 8.000000e+00 : f64, head_size = 2 : i64, inverse, magnitude = 1.000000e+00 : f64, ramp_high = 4.000000e+00 : f64, ramp_low = 1.000000e+00 : f64, ramp_positions = 8.192000e+03 : f64, sequence = 3 : i64}
  %t = weft.rope %r {base = 10000.0 : f64, factor = 8.0 : f64, head_size = 2 : i64, inverse, magnitude = 1.0 : f64, ramp_high = 4.0 : f64, ramp_low = 1.0 : f64, ramp_positions = 8192.0 : f64, sequence = 3 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.swiglu %{{.*}}, %{{.*}} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %s = weft.swiglu %t, %r : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.load_tokens {mask_token = 7 : i64, masked = 1 : i64, vocabulary = 8 : i64} : tensor<6xi32>
  %masked = weft.load_tokens {mask_token = 7 : i64, masked = 1 : i64, vocabulary = 8 : i64} : tensor<6xi32>
  // CHECK: weft.gelu %{{.*}} {tanh_approximation}
  %g = weft.gelu %o {tanh_approximation} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.dropout %{{.*}} {dropout = 2.500000e-01 : f64, dropout_site = 4 : i32}
  %d = weft.dropout %g {dropout = 0.25 : f64, dropout_site = 4 : i32} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.cast %{{.*}} : (tensor<6x4xf32>) -> tensor<6x4xbf16>
  %c = weft.cast %d : (tensor<6x4xf32>) -> tensor<6x4xbf16>
  // CHECK: weft.matmul %{{.*}}, %{{.*}} {transpose_b} : (tensor<6x4xbf16>, tensor<8x4xf32>) -> tensor<6x8xf32>
  %logits = weft.matmul %c, %table {transpose_b} : (tensor<6x4xbf16>, tensor<8x4xf32>) -> tensor<6x8xf32>
  // CHECK: weft.cross_entropy %{{.*}}, %{{.*}}, %{{.*}} {loss_weight = 5.000000e-01 : f64, vocabulary = 7 : i64}
  %l, %new = weft.cross_entropy %logits, %targets, %losses {loss_weight = 0.5 : f64, vocabulary = 7 : i64} : (tensor<6x8xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
  weft.return %new : tensor<2xf64>
}

// CHECK-LABEL: weft.segment @backward backward stage 1
weft.segment @backward backward stage 1 (
    %dy: tensor<6x4xf32> as <output_grad>, %x: tensor<6x4xf32> as <input>, %mean: tensor<6xf32> as <saved>,
    %tokens: tensor<6xi32> as <saved use 1>, %qkv: tensor<6x12xf32> as <saved use 2>,
    %lse: tensor<6x2xf32> as <saved use 3>, %logits: tensor<6x8xf32> as <saved use 4>,
    %gamma: tensor<4xf32> as <param tensor 1>, %dtable: tensor<8x4xf32> as <grad tensor 0>,
    %dgamma: tensor<4xf32> as <grad tensor 1>, %dbeta: tensor<4xf32> as <grad tensor 2>) -> () {
  // CHECK: weft.embedding_backward %{{.*}}, %{{.*}} init %{{.*}} :
  %0 = weft.embedding_backward %tokens, %dy init %dtable : (tensor<6xi32>, tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: weft.position_embedding_backward %{{.*}} init %{{.*}} {sequence = 3 : i64} :
  %1 = weft.position_embedding_backward %dy init %0 {sequence = 3 : i64} : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: weft.bias_gradient %{{.*}} init %{{.*}} :
  %2 = weft.bias_gradient %dy init %dbeta : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: weft.layer_norm_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} init %{{.*}} :
  %3 = weft.layer_norm_backward %dy, %x, %gamma, %mean, %mean init %dy : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.layer_norm_backward_weight %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} init %{{.*}}, %{{.*}} :
  %4:2 = weft.layer_norm_backward_weight %dy, %x, %mean, %mean init %dgamma, %dbeta : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: weft.layer_norm_backward_weight %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
  %5:2 = weft.layer_norm_backward_weight %dy, %x, %mean, %mean : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: weft.gelu_backward %{{.*}}, %{{.*}} {tanh_approximation} :
  %6 = weft.gelu_backward %dy, %x {tanh_approximation} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.attention_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {heads = 2 : i64, scale = 5.000000e-01 : f64, sequence = 3 : i64} :
  %7 = weft.attention_backward %dy, %qkv, %x, %lse {heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> tensor<6x12xf32>
  // CHECK: weft.attention_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {heads = 2 : i64, kv_heads = 1 : i64, scale = 5.000000e-01 : f64, sequence = 3 : i64} :
  %9:3 = weft.attention_backward %dy, %x, %lse, %lse, %x, %lse {heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>)
  // CHECK: weft.rms_norm_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} init %{{.*}} :
  %10 = weft.rms_norm_backward %dy, %x, %gamma, %mean init %dy : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: weft.rms_norm_backward_weight %{{.*}}, %{{.*}}, %{{.*}} init %{{.*}} :
  %11 = weft.rms_norm_backward_weight %dy, %x, %mean init %dgamma : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: weft.swiglu_backward %{{.*}}, %{{.*}}, %{{.*}} :
  %12:2 = weft.swiglu_backward %dy, %x, %x : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>)
  // CHECK: weft.cross_entropy_backward %{{.*}}, %{{.*}}, %{{.*}} {loss_weight = 5.000000e-01 : f64, vocabulary = 7 : i64} :
  %8 = weft.cross_entropy_backward %logits, %mean, %tokens {loss_weight = 0.5 : f64, vocabulary = 7 : i64} : (tensor<6x8xf32>, tensor<6xf32>, tensor<6xi32>) -> tensor<6x8xf32>
  weft.return
}

// CHECK-LABEL: weft.segment @step optimizer_step stage 2
weft.segment @step optimizer_step stage 2 (
    %g: tensor<4xf32> as <grad tensor 0>, %w: tensor<4xf32> as <master tensor 0>, %m: tensor<4xf32> as <moment1 tensor 0>,
    %v: tensor<4xf32> as <moment2 tensor 0>, %acc: tensor<4x!weft.exact192> as <grad_accumulator tensor 0>,
    %acc1: tensor<4x!weft.exact192> as <grad_accumulator tensor 0 use 1>, %norms: tensor<3xf64> as <norms>) -> () {
  // CHECK: weft.fill {value = 0.000000e+00 : f64} : tensor<4x!weft.exact192>
  %zero = weft.fill {value = 0.0 : f64} : tensor<4x!weft.exact192>
  // CHECK: weft.exact_accumulate %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4x!weft.exact192>) -> tensor<4x!weft.exact192>
  %0 = weft.exact_accumulate %g, %acc : (tensor<4xf32>, tensor<4x!weft.exact192>) -> tensor<4x!weft.exact192>
  // CHECK: weft.add %{{.*}}, %{{.*}} : (tensor<4x!weft.exact192>, tensor<4x!weft.exact192>) -> tensor<4x!weft.exact192>
  %1 = weft.add %0, %acc1 : (tensor<4x!weft.exact192>, tensor<4x!weft.exact192>) -> tensor<4x!weft.exact192>
  // CHECK: weft.exact_round %{{.*}} : (tensor<4x!weft.exact192>) -> tensor<4xf32>
  %2 = weft.exact_round %1 : (tensor<4x!weft.exact192>) -> tensor<4xf32>
  // CHECK: weft.squared_norm %{{.*}}, %{{.*}} {slot = 2 : i64} :
  %3 = weft.squared_norm %2, %norms {slot = 2 : i64} : (tensor<4xf32>, tensor<3xf64>) -> tensor<3xf64>
  // CHECK: weft.norm_total %{{.*}} {clip_norm = 1.000000e+00 : f64} :
  %4 = weft.norm_total %3 {clip_norm = 1.0 : f64} : (tensor<3xf64>) -> tensor<2xf64>
  // CHECK: weft.scale %{{.*}}, %{{.*}} :
  %5 = weft.scale %4, %2 : (tensor<2xf64>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: weft.adamw %{{.*}} -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>)
  %6:4 = weft.adamw %5, %w, %m, %v {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.1 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>)
  // CHECK: weft.sgd_step %{{.*}}, %{{.*}}, %{{.*}} {{.*}} -> (tensor<4xf32>, tensor<4xf32>)
  %7:2 = weft.sgd_step %5, %w, %m {momentum = 0.9 : f64, resultSegmentSizes = array<i32: 1, 1, 0>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: weft.sgd_step %{{.*}}, %{{.*}} {{.*}} -> tensor<4xf32>
  %8 = weft.sgd_step %5, %w {momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 0>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // Loss scaling.
  // CHECK: %[[TOTAL:.*]] = weft.norm_total %{{.*}}, %[[SCALE:.*]] {clip_norm = 0.000000e+00 : f64} :
  %9 = weft.norm_total %3, %norms {clip_norm = 0.0 : f64} : (tensor<3xf64>, tensor<3xf64>) -> tensor<2xf64>
  // CHECK: weft.scale %[[TOTAL]], %{{.*}} -> tensor<4xf64>
  %10 = weft.scale %9, %2 : (tensor<2xf64>, tensor<4xf32>) -> tensor<4xf64>
  // CHECK: weft.adamw %{{.*}}, %[[TOTAL]], %[[SCALE]] {{.*}}
  %11:3 = weft.adamw %2, %w, %m, %v, %9, %norms {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.1 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf64>, tensor<3xf64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: weft.sgd_step %{{.*}}, %{{.*}}, %{{.*}} scaled by %[[TOTAL]], %[[SCALE]] {momentum
  %12:2 = weft.sgd_step %2, %w, %m scaled by %9, %norms {momentum = 0.9 : f64, resultSegmentSizes = array<i32: 1, 1, 0>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf64>, tensor<3xf64>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: weft.sgd_step %{{.*}}, %{{.*}} scaled by %[[TOTAL]] {momentum
  %13 = weft.sgd_step %2, %w scaled by %9 {momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 0>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<2xf64>) -> tensor<4xf32>
  // CHECK: weft.update_loss_scale %[[TOTAL]], %[[SCALE]] {growth_interval = 2000 : i32, loss_scale = 6.553600e+04 : f64} :
  %14 = weft.update_loss_scale %9, %norms {growth_interval = 2000 : i32, loss_scale = 65536.0 : f64} : (tensor<2xf64>, tensor<3xf64>) -> tensor<3xf64>
  weft.return
}
