// Attention becomes scores, softmax, dropout and the sum of values. With masks, the dropout keeps its mask.
// RUN: weft-opt %s --weft-materialize-attention | FileCheck %s
// RUN: weft-opt %s --weft-materialize-attention --weft-keep-dropout-masks | FileCheck %s --check-prefix=MASKS

weft.graph @tiny {
^bb0(%losses: tensor<2xf64>):
  %qkv = weft.parameter 0 {layer = 0 : i32} : tensor<6x12xf32>
  %y, %lse = weft.attention %qkv {causal, dropout = 0.25 : f64, dropout_site = 3 : i32, heads = 2 : i64, layer = 0 : i32, name = "attn", scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  %k = weft.parameter 1 {layer = 1 : i32} : tensor<6x2xf32>
  %z, %rows = weft.attention %y, %k, %k {causal, heads = 2 : i64, kv_heads = 1 : i64, layer = 1 : i32, name = "grouped", scale = 0.5 : f64, sequence = 3 : i64, window = 2 : i64} : (tensor<6x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  %d = weft.dropout %z {dropout = 0.5 : f64, layer = 1 : i32, name = "drop"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// CHECK: %[[QKV:.*]] = weft.parameter 0
// CHECK-NEXT: %[[S:.*]] = weft.attention_scores %[[QKV]] {heads = 2 : i64, layer = 0 : i32, name = "attn.scores", scale = 5.000000e-01 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> tensor<6x6xf32>
// CHECK-NEXT: %[[P:.*]] = weft.attention_softmax %[[S]] {causal, heads = 2 : i64, layer = 0 : i32, name = "attn.softmax", sequence = 3 : i64} : (tensor<6x6xf32>) -> tensor<6x6xf32>
// CHECK-NEXT: %[[D:.*]] = weft.dropout %[[P]] {dropout = 2.500000e-01 : f64, dropout_site = 3 : i32, heads = 2 : i64, layer = 0 : i32, name = "attn.dropout", sequence = 3 : i64} : (tensor<6x6xf32>) -> tensor<6x6xf32>
// CHECK-NEXT: %[[Y:.*]] = weft.attention_values %[[D]], %[[QKV]] {heads = 2 : i64, layer = 0 : i32, name = "attn.values", sequence = 3 : i64} : (tensor<6x6xf32>, tensor<6x12xf32>) -> tensor<6x4xf32>
// CHECK-NEXT: %[[K:.*]] = weft.parameter 1
// CHECK-NEXT: %[[S:.*]] = weft.attention_scores %[[Y]], %[[K]] {heads = 2 : i64, kv_heads = 1 : i64,
// CHECK-NEXT: %[[P:.*]] = weft.attention_softmax %[[S]] {causal, {{.*}} window = 2 : i64}
// CHECK-NEXT: %[[Z:.*]] = weft.attention_values %[[P]], %[[K]] {heads = 2 : i64, kv_heads = 1 : i64,
// CHECK-NEXT: weft.dropout %[[Z]]
// CHECK-NOT: weft.attention %

// MASKS: weft.dropout_mask %{{.*}} {dropout = 2.500000e-01 : f64, dropout_site = 3 : i32, heads = 2 : i64, layer = 0 : i32, name = "attn.dropout", sequence = 3 : i64} : (tensor<6x6xf32>) -> (tensor<6x6xf32>, tensor<6x6xui8>)
// MASKS: weft.dropout_mask %{{.*}} {dropout = 5.000000e-01 : f64, layer = 1 : i32, name = "drop"} : (tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xui8>)
// MASKS-NOT: weft.dropout %
