// Attention as separate ops, and dropout with a mask, can be read back after printing.
// RUN: weft-opt %s | weft-opt | FileCheck %s

weft.segment @ops forward stage 0 (%qkv: tensor<6x12xbf16> as <saved use 0>, %k: tensor<6x2xbf16> as <saved use 1>, %do: tensor<6x4xbf16> as <saved use 2>) -> () {
  // CHECK: weft.attention_scores %{{[a-z0-9_]+}} {heads = 2 : i64, qkv_by_head, scale = 5.000000e-01 : f64, sequence = 3 : i64} : (tensor<6x12xbf16>) -> tensor<6x6xbf16>
  %s = weft.attention_scores %qkv {heads = 2 : i64, qkv_by_head, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xbf16>) -> tensor<6x6xbf16>
  // CHECK: weft.attention_scores %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {heads = 2 : i64, kv_heads = 1 : i64,
  %t = weft.attention_scores %do, %k {heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xbf16>, tensor<6x2xbf16>) -> tensor<6x6xbf16>
  // CHECK: weft.attention_softmax %{{[a-z0-9_]+}} {causal, heads = 2 : i64, sequence = 3 : i64, window = 2 : i64} : (tensor<6x6xbf16>) -> tensor<6x6xbf16>
  %p = weft.attention_softmax %s {causal, heads = 2 : i64, sequence = 3 : i64, window = 2 : i64} : (tensor<6x6xbf16>) -> tensor<6x6xbf16>
  // CHECK: weft.dropout_mask %{{[a-z0-9_]+}} {dropout = 2.500000e-01 : f64, heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xbf16>) -> (tensor<6x6xbf16>, tensor<6x6xui8>)
  %d, %mask = weft.dropout_mask %p {dropout = 0.25 : f64, heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xbf16>) -> (tensor<6x6xbf16>, tensor<6x6xui8>)
  // CHECK: weft.attention_values %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {heads = 2 : i64, qkv_by_head, sequence = 3 : i64} : (tensor<6x6xbf16>, tensor<6x12xbf16>) -> tensor<6x4xbf16>
  %o = weft.attention_values %d, %qkv {heads = 2 : i64, qkv_by_head, sequence = 3 : i64} : (tensor<6x6xbf16>, tensor<6x12xbf16>) -> tensor<6x4xbf16>
  // CHECK: weft.attention_values_backward %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64} : (tensor<6x4xbf16>, tensor<6x6xbf16>, tensor<6x2xbf16>) -> (tensor<6x6xbf16>, tensor<6x2xbf16>)
  %dp, %dv = weft.attention_values_backward %do, %d, %k {heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64} : (tensor<6x4xbf16>, tensor<6x6xbf16>, tensor<6x2xbf16>) -> (tensor<6x6xbf16>, tensor<6x2xbf16>)
  // CHECK: weft.dropout_by_mask %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {dropout = 2.500000e-01 : f64} : (tensor<6x6xbf16>, tensor<6x6xui8>) -> tensor<6x6xbf16>
  %dd = weft.dropout_by_mask %dp, %mask {dropout = 0.25 : f64} : (tensor<6x6xbf16>, tensor<6x6xui8>) -> tensor<6x6xbf16>
  // CHECK: weft.attention_softmax_backward %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xbf16>, tensor<6x6xbf16>) -> tensor<6x6xbf16>
  %ds = weft.attention_softmax_backward %dd, %p {heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xbf16>, tensor<6x6xbf16>) -> tensor<6x6xbf16>
  // CHECK: weft.attention_scores_backward %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} {heads = 2 : i64, kv_heads = 1 : i64, scale = 5.000000e-01 : f64, sequence = 3 : i64} : (tensor<6x6xbf16>, tensor<6x4xbf16>, tensor<6x2xbf16>) -> (tensor<6x4xbf16>, tensor<6x2xbf16>)
  %dq, %dk = weft.attention_scores_backward %ds, %do, %k {heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x6xbf16>, tensor<6x4xbf16>, tensor<6x2xbf16>) -> (tensor<6x4xbf16>, tensor<6x2xbf16>)
  weft.return
}
