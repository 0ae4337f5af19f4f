// With `selective` the backward recomputes attention's probabilities from q, k and v. Otherwise they are kept, and so
// is the dropout mask.
// RUN: weft-opt %s --weft-materialize-attention --weft-keep-dropout-masks --weft-partition-stages=stages=1 --weft-build-segments=recompute=selective | FileCheck %s
// RUN: weft-opt %s --weft-materialize-attention --weft-keep-dropout-masks --weft-partition-stages=stages=1 --weft-build-segments | FileCheck %s --check-prefix=NONE

module attributes {weft.training = {accumulation = "in_order", clip_norm = 0.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @wte index 0 shape [7, 4] : tensor<8x4xf32> {uses = 2 : i32}
  weft.tensor @qkv index 1 shape [4, 12] : tensor<4x12xf32>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %w = weft.parameter 1 {layer = 1 : i32} : tensor<4x12xf32>
    %qkv = weft.matmul %x, %w {layer = 1 : i32, name = "qkv"} : (tensor<6x4xf32>, tensor<4x12xf32>) -> tensor<6x12xf32>
    %o, %rows = weft.attention %qkv {causal, dropout = 0.25 : f64, dropout_site = 3 : i32, heads = 2 : i64, layer = 1 : i32, name = "attn", scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
    %r = weft.add %x, %o {layer = 1 : i32, name = "residual"} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8x4xf32>
    %logits = weft.matmul %r, %head {layer = 2 : i32, name = "head", transpose_b} : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
    %targets = weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 7 : i64} : (tensor<6x8xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK-LABEL: weft.segment @stage0.forward
// CHECK: %[[TOKENS:.*]] = weft.load_tokens
// CHECK: %[[X:.*]] = weft.embedding
// CHECK: %[[QKV:.*]] = weft.matmul %{{.*}} name = "qkv"
// CHECK: weft.attention_values
// CHECK: %[[R:.*]] = weft.add
// CHECK: %[[LOGITS:.*]] = weft.matmul
// CHECK: %[[TARGETS:.*]] = weft.load_targets
// CHECK: %[[LSE:.*]], %[[NEW:.*]] = weft.cross_entropy
// CHECK: weft.return %[[TOKENS]], %[[X]], %[[QKV]], %[[R]], %[[LOGITS]], %[[TARGETS]], %[[LSE]], %[[NEW]]
// CHECK-LABEL: weft.segment @stage0.backward
// CHECK: %[[S:.*]] = weft.attention_scores %[[QKV:[a-z0-9]*]] {{.*}}part = "recompute"
// CHECK-NEXT: %[[P:.*]] = weft.attention_softmax %[[S]] {{.*}}part = "recompute"
// CHECK-NEXT: %[[D:.*]], %[[MASK:.*]] = weft.dropout_mask %[[P]] {{.*}}part = "recompute"
// CHECK-NEXT: %[[DP:.*]], %[[DV:.*]] = weft.attention_values_backward %{{.*}}, %[[D]], %[[QKV]]
// CHECK-NEXT: %[[DD:.*]] = weft.dropout_by_mask %[[DP]], %[[MASK]]
// CHECK-NEXT: %[[DS:.*]] = weft.attention_softmax_backward %[[DD]], %[[P]]
// CHECK-NEXT: %[[DQK:.*]] = weft.attention_scores_backward %[[DS]], %[[QKV]]
// CHECK-NEXT: weft.add %[[DV]], %[[DQK]]

// NONE-LABEL: weft.segment @stage0.forward
// NONE: %[[P:.*]] = weft.attention_softmax
// NONE: %[[D:.*]], %[[MASK:.*]] = weft.dropout_mask %[[P]]
// NONE: weft.return {{.*}}%[[P]], %[[D]], %[[MASK]],
// NONE-LABEL: weft.segment @stage0.backward
// NONE-NOT: weft.attention_scores %
// NONE: weft.attention_values_backward
