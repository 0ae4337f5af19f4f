// RUN: weft-opt %s -split-input-file -verify-diagnostics
// Attention as separate ops, and dropout with a mask: 6 rows in sequences of 3, 2 heads.

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_scores_c1] kv_heads = 1 must be 0 with qkv, and not 0 with q and k}}
  %0 = weft.attention_scores %x {heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_scores_c1] 12 columns do not hold q, k and v of 5 heads}}
  %0 = weft.attention_scores %x {heads = 5 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> tensor<6x15xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%q: tensor<6x4xf32> as <saved use 0>, %k: tensor<6x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_scores_c1] q (rows of k x heads * head size) must be 6x8, got 6x4}}
  %0 = weft.attention_scores %q, %k {heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_scores_c2] result (rows x heads * sequence) must be 6x6, got 6x8}}
  %0 = weft.attention_scores %x {heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> tensor<6x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>, %s: tensor<6x6xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_scores_backward_c1] kv_heads = 2 must be 0 with qkv, and not 0 with q and k}}
  %0 = weft.attention_scores_backward %s, %x {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x6xf32>, tensor<6x12xf32>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>, %s: tensor<6x6xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_scores_backward_c2] heads = 2 must be positive, and sequence = 4 must divide the rows, 6}}
  %0 = weft.attention_scores_backward %s, %x {heads = 2 : i64, scale = 0.5 : f64, sequence = 4 : i64} : (tensor<6x6xf32>, tensor<6x12xf32>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%q: tensor<6x4xf32> as <saved use 0>, %s: tensor<6x6xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_scores_backward_c3] must have a gradient of k if, and only if, there is a k}}
  %0 = weft.attention_scores_backward %s, %q, %q {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x6xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%q: tensor<6x4xf32> as <saved use 0>, %s: tensor<6x6xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_scores_backward_c4] gradient of k (like k) must be 6x4, got 6x2}}
  %0, %1 = weft.attention_scores_backward %s, %q, %q {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x6xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_softmax_c1] s (rows x heads * sequence) must be 6x9, got 6x6}}
  %0 = weft.attention_softmax %s {heads = 3 : i64, sequence = 3 : i64} : (tensor<6x6xf32>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_softmax_c2] result (like s) must be of type 'tensor<6x6xf32>', got 'tensor<6x6xbf16>'}}
  %0 = weft.attention_softmax %s {heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xf32>) -> tensor<6x6xbf16>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_softmax_c3] window = 2 must not be negative, and needs causal}}
  %0 = weft.attention_softmax %s {heads = 2 : i64, sequence = 3 : i64, window = 2 : i64} : (tensor<6x6xf32>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_softmax_backward_c1] heads = 0 must be positive}}
  %0 = weft.attention_softmax_backward %s, %s {heads = 0 : i64, sequence = 3 : i64} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %x: tensor<6x5xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_softmax_backward_c2] dp (like p) must be 6x6, got 6x5}}
  %0 = weft.attention_softmax_backward %x, %s {heads = 2 : i64, sequence = 3 : i64} : (tensor<6x5xf32>, tensor<6x6xf32>) -> tensor<6x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %v: tensor<6x2xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_values_c1] 2 columns do not hold k or v of 1 heads that serve 2 heads of q; qkv_by_head needs qkv}}
  %0 = weft.attention_values %s, %v {heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64, qkv_by_head} : (tensor<6x6xf32>, tensor<6x2xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x7xf32> as <saved use 0>, %v: tensor<6x2xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_values_c2] p (rows x heads * sequence) must be 6x6, got 6x7}}
  %0 = weft.attention_values %s, %v {heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64} : (tensor<6x7xf32>, tensor<6x2xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %v: tensor<6x2xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_values_c3] result (rows x columns of q) must be 6x4, got 6x2}}
  %0 = weft.attention_values %s, %v {heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64} : (tensor<6x6xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %v: tensor<6x2xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_values_backward_c1] 2 columns do not hold q, k and v of 2 heads}}
  %0, %1 = weft.attention_values_backward %v, %s, %v {heads = 2 : i64, sequence = 3 : i64} : (tensor<6x2xf32>, tensor<6x6xf32>, tensor<6x2xf32>) -> (tensor<6x6xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x7xf32> as <saved use 0>, %v: tensor<6x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_values_backward_c2] p (rows x heads * sequence) must be 6x6, got 6x7}}
  %0, %1 = weft.attention_values_backward %v, %s, %v {heads = 2 : i64, kv_heads = 2 : i64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x7xf32>, tensor<6x4xf32>) -> (tensor<6x7xf32>, tensor<6x4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %v: tensor<6x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_values_backward_c3] dout (rows x columns of q) must be 6x8, got 6x4}}
  %0, %1 = weft.attention_values_backward %v, %s, %v {heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x6xf32>, tensor<6x4xf32>) -> (tensor<6x6xf32>, tensor<6x4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %v: tensor<6x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_values_backward_c4] gradient of qkv or v (like qkv or v) must be 6x4, got 6x6}}
  %0, %1 = weft.attention_values_backward %v, %s, %v {heads = 2 : i64, kv_heads = 2 : i64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x6xf32>, tensor<6x4xf32>) -> (tensor<6x6xf32>, tensor<6x6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_c1] x (rows x heads * sequence) must be 6x9, got 6x6}}
  %0 = weft.dropout %s {dropout = 0.5 : f64, heads = 3 : i64, sequence = 3 : i64} : (tensor<6x6xf32>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_c1] heads need whole sequences, so row_shift is not allowed with heads}}
  %0 = weft.dropout %s {dropout = 0.5 : f64, heads = 2 : i64, sequence = 3 : i64, row_shift = {x = 6 : i64}} : (tensor<6x6xf32>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_mask_c1] dropout must be at least 0 and below 1, got 1.000000}}
  %0, %1 = weft.dropout_mask %s {dropout = 1.0 : f64} : (tensor<6x6xf32>) -> (tensor<6x6xf32>, tensor<6x6xui8>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_mask_c2] mask (like x) must be 6x6, got 6x5}}
  %0, %1 = weft.dropout_mask %s {dropout = 0.5 : f64} : (tensor<6x6xf32>) -> (tensor<6x6xf32>, tensor<6x5xui8>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %m: tensor<6x5xui8> as <saved use 1>) -> () {
  // expected-error@+1 {{[dropout_by_mask_c1] mask (like dy) must be 6x6, got 6x5}}
  %0 = weft.dropout_by_mask %s, %m {dropout = 0.5 : f64} : (tensor<6x6xf32>, tensor<6x5xui8>) -> tensor<6x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %m: tensor<6x6xui8> as <saved use 1>) -> () {
  // expected-error@+1 {{[dropout_by_mask_c2] result (like dy) must be 6x6, got 6x5}}
  %0 = weft.dropout_by_mask %s, %m {dropout = 0.5 : f64} : (tensor<6x6xf32>, tensor<6x6xui8>) -> tensor<6x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%s: tensor<6x6xf32> as <saved use 0>, %m: tensor<6x6xui8> as <saved use 1>) -> () {
  // expected-error@+1 {{[dropout_by_mask_c3] dropout must be at least 0 and below 1, got -0.500000}}
  %0 = weft.dropout_by_mask %s, %m {dropout = -0.5 : f64} : (tensor<6x6xf32>, tensor<6x6xui8>) -> tensor<6x6xf32>
  weft.return
}
