// RUN: weft-opt %s -split-input-file -verify-diagnostics
// Operands are segment arguments, whose roles do not matter here.

// -----

weft.segment @s forward stage 0 (%t: tensor<6xi32> as <saved use 0>, %w: tensor<8x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[embedding_c1] result (tokens x columns of the table) must be 6x4, got 6x5}}
  %0 = weft.embedding %t, %w : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%w: tensor<8x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[position_embedding_c1] sequence = 4 must divide the result's rows, 6}}
  %0 = weft.position_embedding %w {sequence = 4 : i64} : (tensor<8x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%w: tensor<8x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[position_embedding_c2] sequence = 9 is more than the table's 8 positions}}
  %0 = weft.position_embedding %w {sequence = 9 : i64} : (tensor<8x4xf32>) -> tensor<9x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%w: tensor<8x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[position_embedding_c3] result (its own rows x the columns of the table) must be 6x4, got 6x5}}
  %0 = weft.position_embedding %w {sequence = 3 : i64} : (tensor<8x4xf32>) -> tensor<6x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %y: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[add_c1] b (like a) must be 6x4, got 4}}
  %0 = weft.add %x, %y : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[add_c2] result (like a) must be 6x4, got 4x6}}
  %0 = weft.add %x, %x : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %i: tensor<6x4xbf16> as <saved use 1>) -> () {
  // expected-error@+1 {{[add_c3] init (like the result) must be of type 'tensor<6x4xf32>', got 'tensor<6x4xbf16>'}}
  %0 = weft.add %x, %x init %i : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xbf16>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %i: tensor<6x4x!weft.exact192> as <saved use 1>) -> () {
  // expected-error@+1 {{[add_c4] an accumulator can be added only to an accumulator, without init}}
  %0 = weft.add %i, %x : (tensor<6x4x!weft.exact192>, tensor<6x4xf32>) -> tensor<6x4x!weft.exact192>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<2x3xf32> as <saved use 0>, %b: tensor<4x5xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[matmul_c1] inner dimensions 3 and 4 differ}}
  %0 = weft.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<2x3xf32> as <saved use 0>, %b: tensor<4x5xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[matmul_c1] inner dimensions 2 and 5 differ}}
  %0 = weft.matmul %a, %b {transpose_a, transpose_b} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<3x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<2x3xf32> as <saved use 0>, %b: tensor<3x5xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[matmul_c2] result must be 2x5, got 5x2}}
  %0 = weft.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<5x2xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<2x3xf32> as <saved use 0>, %b: tensor<3x5xf32> as <saved use 1>, %c: tensor<2xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[matmul_c3] bias (columns of the result) must be 5, got 2}}
  %0 = weft.matmul %a, %b bias %c : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<2xf32>) -> tensor<2x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<2x3xf32> as <saved use 0>, %b: tensor<3x5xf32> as <saved use 1>, %c: tensor<2x4xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[matmul_c4] init (like the result) must be of type 'tensor<2x5xf32>', got 'tensor<2x4xf32>'}}
  %0 = weft.matmul %a, %b init %c : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<2x4xf32>) -> tensor<2x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<2x3xbf16> as <saved use 0>, %b: tensor<3x5xbf16> as <saved use 1>) -> () {
  // expected-error@+1 {{[matmul_c5] only factors of f32 can be rounded to TF32; the factors are 'bf16' and 'bf16'}}
  %0 = weft.matmul %a, %b {tf32} : (tensor<2x3xbf16>, tensor<3x5xbf16>) -> tensor<2x5xbf16>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[layer_norm_c1] gamma (columns of x) must be 4, got 6}}
  %0:3 = weft.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[layer_norm_c2] result (like x) must be 6x4, got 4x6}}
  %0:3 = weft.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[layer_norm_c3] mean (rows of x) must be 6, got 4}}
  %0:3 = weft.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[layer_norm_c4] mean must hold 'f32', got 'f64'}}
  %0:3 = weft.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf64>, tensor<6xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[layer_norm_c5] epsilon must be positive and finite, got 0.000000}}
  %0:3 = weft.layer_norm %x, %g, %g {epsilon = 0.0 : f64} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c1] columns of qkv must be 3 x heads x head size, got 12 columns and 3 heads}}
  %0:2 = weft.attention %x {causal, heads = 3 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x3xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c2] result (rows x columns of q) must be 6x4, got 6x12}}
  %0:2 = weft.attention %x {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x12xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c3] lse (rows x heads) must be 6x2, got 6x4}}
  %0:2 = weft.attention %x {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c4] lse must hold 'f32', got 'bf16'}}
  %0:2 = weft.attention %x {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xbf16>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c5] sequence = 4 must divide qkv's rows, 6}}
  %0:2 = weft.attention %x {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 4 : i64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x12xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c6] dropout must be at least 0 and below 1, got 1.000000}}
  %0:2 = weft.attention %x {causal, heads = 2 : i64, scale = 1.0 : f64, sequence = 3 : i64, dropout = 1.0 : f64} : (tensor<6x12xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_c1] result (like x) must be 6x4, got 6x5}}
  %0 = weft.dropout %x {dropout = 0.1 : f64} : (tensor<6x4xf32>) -> tensor<6x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_c1] dropout must be at least 0 and below 1, got -0.100000}}
  %0 = weft.dropout %x {dropout = -0.1 : f64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[cast_c1] result (like x) must be 6x4, got 6x5}}
  %0 = weft.cast %x : (tensor<6x4xf32>) -> tensor<6x5xbf16>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %t: tensor<5xi32> as <saved use 1>, %l: tensor<2xf64> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_c1] targets (rows of logits) must be 6, got 5}}
  %0:2 = weft.cross_entropy %x, %t, %l {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<5xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %t: tensor<6xi32> as <saved use 1>, %l: tensor<2xf64> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_c2] lse (rows of logits) must be 6, got 5}}
  %0:2 = weft.cross_entropy %x, %t, %l {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<5xf32>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %t: tensor<6xi32> as <saved use 1>, %l: tensor<2xf64> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_c3] lse must hold 'f32', got 'f64'}}
  %0:2 = weft.cross_entropy %x, %t, %l {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf64>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %t: tensor<6xi32> as <saved use 1>, %l: tensor<2xf64> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_c4] new_losses (like losses) must be of type 'tensor<2xf64>', got 'tensor<3xf64>'}}
  %0:2 = weft.cross_entropy %x, %t, %l {loss_weight = 0.5 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<3xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %t: tensor<6xi32> as <saved use 1>, %l: tensor<2xf64> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_c5] vocabulary must be between 1 and the columns of logits, 4, got 5}}
  %0:2 = weft.cross_entropy %x, %t, %l {loss_weight = 0.5 : f64, vocabulary = 5 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
  weft.return
}
