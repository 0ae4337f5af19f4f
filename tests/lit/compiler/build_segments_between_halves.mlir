// What stays between the halves of a backward: a row of each norm's gradient instead of the norm's input, and the rank's
// own rows instead of gathered ones.
// RUN: weft-opt %s --weft-partition-stages --weft-build-segments="whole-backward=false split-backward norms-in-input-half gather-again" | FileCheck %s

module attributes {weft.training = {accumulation = "in_order", clip_norm = 0.0 : f64, grads = bf16, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @wte index 0 shape [7, 1024] : tensor<8x1024xbf16> {uses = 2 : i32}
  weft.tensor @gamma index 1 shape [1024] : tensor<1024xbf16>
  weft.tensor @beta index 2 shape [1024] : tensor<1024xbf16>
  weft.tensor @up index 3 shape [1024, 1024] : tensor<1024x1024xbf16>
  weft.tensor @down index 4 shape [1024, 1024] : tensor<1024x1024xbf16>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<4096xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x1024xbf16>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<4096xi32>, tensor<8x1024xbf16>) -> tensor<4096x1024xbf16>
    %g = weft.parameter 1 {layer = 1 : i32} : tensor<1024xbf16>
    %b = weft.parameter 2 {layer = 1 : i32} : tensor<1024xbf16>
    %n, %mean, %rstd = weft.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64, layer = 1 : i32, name = "ln"} : (tensor<4096x1024xbf16>, tensor<1024xbf16>, tensor<1024xbf16>) -> (tensor<4096x1024xbf16>, tensor<4096xf32>, tensor<4096xf32>)
    %rows = weft.group_all_gather (%n) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "rows"} : (tensor<4096x1024xbf16>) -> tensor<8192x1024xbf16>
    %up = weft.parameter 3 {layer = 1 : i32} : tensor<1024x1024xbf16>
    %u = weft.matmul %rows, %up {layer = 1 : i32, name = "up"} : (tensor<8192x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<8192x1024xbf16>
    %down = weft.parameter 4 {layer = 1 : i32} : tensor<1024x1024xbf16>
    %d = weft.matmul %u, %down {layer = 1 : i32, name = "down"} : (tensor<8192x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<8192x1024xbf16>
    %s = weft.group_reduce_scatter (%d) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "sum"} : (tensor<8192x1024xbf16>) -> tensor<4096x1024xbf16>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8x1024xbf16>
    %logits = weft.matmul %s, %head {layer = 2 : i32, name = "head", transpose_b} : (tensor<4096x1024xbf16>, tensor<8x1024xbf16>) -> tensor<4096x8xbf16>
    %targets = weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<4096xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 7 : i64} : (tensor<4096x8xbf16>, tensor<4096xi32>, tensor<2xf64>) -> (tensor<4096xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// The input half gathers only the gradient that it reads itself, and does not gather the norm's output. It makes the
// rows of the norm's gradients in fp32, in which the kernel adds, without adding them to anything.
// CHECK-LABEL: weft.segment @stage0.backward_input backward_input
// CHECK: %[[DS:.*]] = weft.matmul {{.*}}name = "head.dx"
// CHECK: %[[DD:.*]] = weft.group_all_gather(%[[DS]]) {{.*}}tensor "ring"
// CHECK: %[[DU:.*]] = weft.matmul %[[DD]], {{.*}}name = "down.dx"
// CHECK-NOT: weft.group_all_gather
// CHECK: weft.layer_norm_backward_weight %{{.*}} -> (tensor<1024xf32>, tensor<1024xf32>)
// CHECK: weft.return
// CHECK-SAME: %[[DS]]
// CHECK-NOT: tensor<8192x1024xbf16>, tensor<8192x1024xbf16>

// The weight half gathers both, each before its reader.
// CHECK-LABEL: weft.segment @stage0.backward_weight backward_weight
// CHECK: %[[AGAIN:.*]] = weft.group_all_gather({{.*}}tensor "ring" {blocking, layer = 1 : i32, {{.*}}part = "weight"}
// CHECK: weft.matmul %{{.*}}, %[[AGAIN]] init {{.*}}name = "down.dw"
// CHECK: %[[ROWS:.*]] = weft.group_all_gather({{.*}}name = "rows", part = "weight"}
// CHECK: weft.matmul %[[ROWS]], {{.*}}name = "up.dw"
// CHECK: weft.add %{{.*}}, %{{.*}} {layer = 1 : i32, name = "ln.dw.add", part = "weight"} : (tensor<1024xbf16>, tensor<1024xf32>) -> tensor<1024xbf16>
// CHECK: weft.add %{{.*}}, %{{.*}} {layer = 1 : i32, name = {{.*}}, part = "weight"} : (tensor<1024xbf16>, tensor<1024xf32>) -> tensor<1024xbf16>
