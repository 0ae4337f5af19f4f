// Heads of scores, probabilities and their masks are sharded over x; random numbers are those of the whole matrix.
// RUN: weft-opt %s --weft-materialize-attention --weft-keep-dropout-masks --weft-shard="x=2 sequence-parallel sequence=4" | FileCheck %s

module {
  weft.tensor @wte index 0 shape [16, 4] : tensor<16x4xf32>
  weft.tensor @qkv index 1 shape [4, 12] : tensor<4x12xf32>
  weft.tensor @proj index 2 shape [4, 4] : tensor<4x4xf32>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<8xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<16x4xf32>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<8xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %w = weft.parameter 1 {layer = 1 : i32} : tensor<4x12xf32>
    %q = weft.matmul %x, %w {layer = 1 : i32, name = "qkv"} : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
    %a, %alse = weft.attention %q {causal, dropout = 0.25 : f64, dropout_site = 3 : i32, heads = 2 : i64, layer = 1 : i32, name = "attn", scale = 1.0 : f64, sequence = 4 : i64} : (tensor<8x12xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
    %p = weft.parameter 2 {layer = 1 : i32} : tensor<4x4xf32>
    %o = weft.matmul %a, %p {layer = 1 : i32, name = "proj"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %d = weft.dropout %o {dropout = 0.5 : f64, dropout_site = 4 : i32, layer = 1 : i32, name = "drop"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<2xf64>
  }
}

// CHECK: %[[QKV:.*]] = weft.matmul {{.*}} name = "qkv"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
// CHECK-NEXT: %[[S:.*]] = weft.attention_scores %[[QKV]] {heads = 1 : i64, {{.*}}} : (tensor<8x6xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: %[[P:.*]] = weft.attention_softmax %[[S]] {causal, heads = 1 : i64, {{.*}}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: %[[D:.*]], %{{.*}} = weft.dropout_mask %[[P]] {column_shift = {x = 1 : i64}, dropout = 2.500000e-01 : f64, dropout_site = 3 : i32, heads = 1 : i64, {{.*}} whole_columns = 2 : i64} : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xui8>)
// CHECK-NEXT: %[[O:.*]] = weft.attention_values %[[D]], %[[QKV]] {heads = 1 : i64, {{.*}}} : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<8x2xf32>
// CHECK: weft.group_reduce_scatter
// CHECK: weft.dropout_mask %{{.*}} {dropout = 5.000000e-01 : f64, dropout_site = 4 : i32, layer = 1 : i32, name = "drop", row_shift = {x = 4 : i64}, sequence = 4 : i64} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xui8>)
