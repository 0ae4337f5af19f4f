// RUN: weft-opt %s -split-input-file -verify-diagnostics
// Operands are segment arguments, whose roles do not matter here.

// -----

weft.segment @s forward stage 0 (%t: tensor<5xi32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[embedding_backward_c1] dy (tokens x columns of the table) must be 5x4, got 6x4}}
  %0 = weft.embedding_backward %t, %x : (tensor<5xi32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%t: tensor<6xi32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %i: tensor<8x4xf64> as <saved use 2>) -> () {
  // expected-error@+1 {{[embedding_backward_c2] init (like the result) must be of type 'tensor<8x4xf32>', got 'tensor<8x4xf64>'}}
  %0 = weft.embedding_backward %t, %x init %i : (tensor<6xi32>, tensor<6x4xf32>, tensor<8x4xf64>) -> tensor<8x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[position_embedding_backward_c1] sequence = 4 must divide dy's 6 rows and be at most the table's 8 positions}}
  %0 = weft.position_embedding_backward %x {sequence = 4 : i64} : (tensor<6x4xf32>) -> tensor<8x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[position_embedding_backward_c2] dy (any rows x columns of the table) must be 6x5, got 6x4}}
  %0 = weft.position_embedding_backward %x {sequence = 3 : i64} : (tensor<6x4xf32>) -> tensor<8x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %i: tensor<7x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[position_embedding_backward_c3] init (like the result) must be of type 'tensor<8x4xf32>', got 'tensor<7x4xf32>'}}
  %0 = weft.position_embedding_backward %x init %i {sequence = 3 : i64} : (tensor<6x4xf32>, tensor<7x4xf32>) -> tensor<8x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[bias_gradient_c1] result (columns of dy) must be 4, got 6}}
  %0 = weft.bias_gradient %x : (tensor<6x4xf32>) -> tensor<6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %i: tensor<4xbf16> as <saved use 1>) -> () {
  // expected-error@+1 {{[bias_gradient_c2] init (like the result) must be of type 'tensor<4xf32>', got 'tensor<4xbf16>'}}
  %0 = weft.bias_gradient %x init %i : (tensor<6x4xf32>, tensor<4xbf16>) -> tensor<4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x5xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %g: tensor<4xf32> as <saved use 2>, %m: tensor<6xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[layer_norm_backward_c1] dy (like x) must be 6x4, got 6x5}}
  %0 = weft.layer_norm_backward %dy, %x, %g, %m, %m : (tensor<6x5xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<6xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[layer_norm_backward_c2] gamma (columns of x) must be 4, got 6}}
  %0 = weft.layer_norm_backward %dy, %x, %g, %m, %m : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %g: tensor<4xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[layer_norm_backward_c3] mean (rows of x) must be 6, got 4}}
  %0 = weft.layer_norm_backward %dy, %x, %g, %m, %m : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %g: tensor<4xf32> as <saved use 2>, %m: tensor<6xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[layer_norm_backward_c4] mean must hold 'f32', got 'f64'}}
  %0 = weft.layer_norm_backward %dy, %x, %g, %m, %m : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf64>, tensor<6xf64>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %g: tensor<4xf32> as <saved use 2>, %m: tensor<6xf32> as <saved use 3>, %i: tensor<6x4xf64> as <saved use 4>) -> () {
  // expected-error@+1 {{[layer_norm_backward_c5] init (like the result) must be of type 'tensor<6x4xf32>', got 'tensor<6x4xf64>'}}
  %0 = weft.layer_norm_backward %dy, %x, %g, %m, %m init %i : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x4xf64>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x5xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %m: tensor<6xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[layer_norm_backward_weight_c1] dy (like x) must be 6x4, got 6x5}}
  %0:2 = weft.layer_norm_backward_weight %dy, %x, %m, %m : (tensor<6x5xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %m: tensor<4xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[layer_norm_backward_weight_c2] mean (rows of x) must be 6, got 4}}
  %0:2 = weft.layer_norm_backward_weight %dy, %x, %m, %m : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %m: tensor<6xbf16> as <saved use 2>) -> () {
  // expected-error@+1 {{[layer_norm_backward_weight_c3] mean must hold 'f32', got 'bf16'}}
  %0:2 = weft.layer_norm_backward_weight %dy, %x, %m, %m : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xbf16>, tensor<6xbf16>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %m: tensor<6xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[layer_norm_backward_weight_c4] dgamma (columns of x) must be 4, got 6}}
  %0:2 = weft.layer_norm_backward_weight %dy, %x, %m, %m : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %m: tensor<6xf32> as <saved use 1>, %g: tensor<4xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[layer_norm_backward_weight_c5] must take an init for both results or for none}}
  %0:2 = "weft.layer_norm_backward_weight"(%x, %x, %m, %m, %g) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>}> : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%dy: tensor<6x4xf32> as <saved use 0>, %x: tensor<6x4xf32> as <saved use 1>, %m: tensor<6xf32> as <saved use 2>, %i: tensor<4xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[layer_norm_backward_weight_c6] init of gamma (like the result) must be of type 'tensor<4xf32>', got 'tensor<4xf64>'}}
  %0:2 = weft.layer_norm_backward_weight %dy, %x, %m, %m init %i, %i : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf64>, tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%do: tensor<6x4xf32> as <saved use 0>, %q: tensor<6x12xf32> as <saved use 1>, %o: tensor<6x4xf32> as <saved use 2>, %l: tensor<6x2xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[attention_backward_c1] columns of qkv must be 3 x heads x head size, got 12 columns and 3 heads}}
  %0 = weft.attention_backward %do, %q, %o, %l {causal, heads = 3 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%do: tensor<6x4xf32> as <saved use 0>, %q: tensor<6x12xf32> as <saved use 1>, %o: tensor<6x4xf32> as <saved use 2>, %l: tensor<6x2xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[attention_backward_c2] sequence = 4 must divide qkv's rows, 6}}
  %0 = weft.attention_backward %do, %q, %o, %l {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 4 : i64} : (tensor<6x4xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%do: tensor<6x5xf32> as <saved use 0>, %q: tensor<6x12xf32> as <saved use 1>, %o: tensor<6x4xf32> as <saved use 2>, %l: tensor<6x2xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[attention_backward_c3] dout (like out) must be 6x4, got 6x5}}
  %0 = weft.attention_backward %do, %q, %o, %l {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x5xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%do: tensor<6x4xf32> as <saved use 0>, %q: tensor<6x12xf32> as <saved use 1>, %o: tensor<6x4xf32> as <saved use 2>, %l: tensor<6x3xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[attention_backward_c4] lse (rows x heads) must be 6x2, got 6x3}}
  %0 = weft.attention_backward %do, %q, %o, %l {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x3xf32>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%do: tensor<6x4xf32> as <saved use 0>, %q: tensor<6x12xf32> as <saved use 1>, %o: tensor<6x4xf32> as <saved use 2>, %l: tensor<6x2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[attention_backward_c5] lse must hold 'f32', got 'f64'}}
  %0 = weft.attention_backward %do, %q, %o, %l {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x2xf64>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%do: tensor<6x4xf32> as <saved use 0>, %q: tensor<6x12xf32> as <saved use 1>, %o: tensor<6x4xf32> as <saved use 2>, %l: tensor<6x2xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[attention_backward_c6] result (like qkv) must be 6x12, got 6x4}}
  %0 = weft.attention_backward %do, %q, %o, %l {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%do: tensor<6x4xf32> as <saved use 0>, %q: tensor<6x12xf32> as <saved use 1>, %o: tensor<6x4xf32> as <saved use 2>, %l: tensor<6x2xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[attention_backward_c7] dropout must be at least 0 and below 1, got 2.000000}}
  %0 = weft.attention_backward %do, %q, %o, %l {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64, dropout = 2.0 : f64} : (tensor<6x4xf32>, tensor<6x12xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> tensor<6x12xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %l: tensor<5xf32> as <saved use 1>, %t: tensor<6xi32> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_backward_c1] lse (rows of logits) must be 6, got 5}}
  %0 = weft.cross_entropy_backward %x, %l, %t {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<5xf32>, tensor<6xi32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %l: tensor<6xf64> as <saved use 1>, %t: tensor<6xi32> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_backward_c2] lse must hold 'f32', got 'f64'}}
  %0 = weft.cross_entropy_backward %x, %l, %t {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xf64>, tensor<6xi32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %l: tensor<6xf32> as <saved use 1>, %t: tensor<5xi32> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_backward_c3] targets (rows of logits) must be 6, got 5}}
  %0 = weft.cross_entropy_backward %x, %l, %t {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xf32>, tensor<5xi32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %l: tensor<6xf32> as <saved use 1>, %t: tensor<6xi32> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_backward_c4] result (like logits) must be 6x4, got 6x5}}
  %0 = weft.cross_entropy_backward %x, %l, %t {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xf32>, tensor<6xi32>) -> tensor<6x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %l: tensor<6xf32> as <saved use 1>, %t: tensor<6xi32> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_backward_c5] vocabulary must be between 1 and the columns of logits, 4, got 0}}
  %0 = weft.cross_entropy_backward %x, %l, %t {loss_weight = 0.5 : f64, vocabulary = 0 : i64} : (tensor<6x4xf32>, tensor<6xf32>, tensor<6xi32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %l: tensor<6xf32> as <saved use 1>, %t: tensor<6xi32> as <saved use 2>, %s: tensor<2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[cross_entropy_backward_c7] scale (rule P11) must be 3, got 2}}
  %0 = weft.cross_entropy_backward %x, %l, %t, %s {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xf32>, tensor<6xi32>, tensor<2xf64>) -> tensor<6x4xf32>
  weft.return
}
