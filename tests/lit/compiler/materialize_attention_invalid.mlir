// RUN: weft-opt %s -split-input-file --weft-materialize-attention -verify-diagnostics

weft.graph @lse_is_read {
^bb0(%losses: tensor<2xf64>):
  %qkv = weft.parameter 0 : tensor<6x12xf32>
  // expected-error@+1 {{[materialize_attention_c1] its log-sum-exp is used, but the materialized form does not compute it}}
  %y, %lse = weft.attention %qkv {heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  %z = weft.gelu %lse : (tensor<6x2xf32>) -> tensor<6x2xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @split {
^bb0(%losses: tensor<2xf64>):
  %qkv = weft.parameter 0 : tensor<6x12xf32>
  // expected-error@+1 {{[materialize_attention_c2] is split already; run the pass before weft-shard}}
  %y, %lse = weft.attention %qkv {column_shift = {x = 2 : i64}, heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64, whole_columns = 4 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.yield %losses : tensor<2xf64>
}
