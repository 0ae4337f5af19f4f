// RUN: weft-opt %s -split-input-file -verify-diagnostics

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %b: tensor<5xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[bias_add_c1] bias (columns of x) must be 6, got 5}}
  %0 = weft.bias_add %x, %b : (tensor<4x6xf32>, tensor<5xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %b: tensor<6xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[bias_add_c2] result (like x) must be 4x6, got 3x6}}
  %0 = weft.bias_add %x, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %t: tensor<3xi32> as <saved use 1>) -> () {
  // expected-error@+1 {{[cross_entropy_partial_c1] targets (rows of logits) must be 4, got 3}}
  %0 = weft.cross_entropy_partial %x, %t {vocabulary = 9 : i64} : (tensor<4x6xf32>, tensor<3xi32>) -> tensor<4x2xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>) -> () {
  // expected-error@+1 {{[cross_entropy_partial_c2] result (rows x 2) must be 4x2, got 4x1}}
  %0 = weft.cross_entropy_partial %x, %t {vocabulary = 9 : i64} : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4x1xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>) -> () {
  // expected-error@+1 {{[cross_entropy_partial_c3] result must hold 'f32', got 'bf16'}}
  %0 = weft.cross_entropy_partial %x, %t {vocabulary = 9 : i64} : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4x2xbf16>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>) -> () {
  // expected-error@+1 {{[cross_entropy_partial_c4] column_shift must map axes to positive strides, as in {x = 24 : i64}, got {x = 0 : i64}}}
  %0 = weft.cross_entropy_partial %x, %t {vocabulary = 9 : i64, column_shift = {x = 0 : i64}} : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4x2xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>) -> () {
  // expected-error@+1 {{[cross_entropy_partial_c5] vocabulary must be positive, got 0}}
  %0 = weft.cross_entropy_partial %x, %t {vocabulary = 0 : i64} : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4x2xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<7x2xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>, %x: tensor<4x6xf32> as <saved use 2>, %l: tensor<2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[cross_entropy_combine_c1] partials must be one or more parts of 4x2, got 7x2}}
  %a, %b = weft.cross_entropy_combine %p, %t, %x, %l {loss_weight = 1.0 : f64, logits_vocabulary = 9 : i64} : (tensor<7x2xf32>, tensor<4xi32>, tensor<4x6xf32>, tensor<2xf64>) -> (tensor<4xf32>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>, %t: tensor<5xi32> as <saved use 1>, %x: tensor<4x6xf32> as <saved use 2>, %l: tensor<2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[cross_entropy_combine_c2] targets (rows of logits) must be 4, got 5}}
  %a, %b = weft.cross_entropy_combine %p, %t, %x, %l {loss_weight = 1.0 : f64, logits_vocabulary = 9 : i64} : (tensor<8x2xf32>, tensor<5xi32>, tensor<4x6xf32>, tensor<2xf64>) -> (tensor<4xf32>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>, %x: tensor<4x6xf32> as <saved use 2>, %l: tensor<2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[cross_entropy_combine_c3] lse (rows of logits) must be 4, got 5}}
  %a, %b = weft.cross_entropy_combine %p, %t, %x, %l {loss_weight = 1.0 : f64, logits_vocabulary = 9 : i64} : (tensor<8x2xf32>, tensor<4xi32>, tensor<4x6xf32>, tensor<2xf64>) -> (tensor<5xf32>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>, %x: tensor<4x6xf32> as <saved use 2>, %l: tensor<2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[cross_entropy_combine_c4] lse must hold 'f32', got 'f64'}}
  %a, %b = weft.cross_entropy_combine %p, %t, %x, %l {loss_weight = 1.0 : f64, logits_vocabulary = 9 : i64} : (tensor<8x2xf32>, tensor<4xi32>, tensor<4x6xf32>, tensor<2xf64>) -> (tensor<4xf64>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>, %x: tensor<4x6xf32> as <saved use 2>, %l: tensor<2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[cross_entropy_combine_c5] new_losses (like losses) must be of type 'tensor<2xf64>', got 'tensor<3xf64>'}}
  %a, %b = weft.cross_entropy_combine %p, %t, %x, %l {loss_weight = 1.0 : f64, logits_vocabulary = 9 : i64} : (tensor<8x2xf32>, tensor<4xi32>, tensor<4x6xf32>, tensor<2xf64>) -> (tensor<4xf32>, tensor<3xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>, %t: tensor<4xi32> as <saved use 1>, %x: tensor<4x6xf32> as <saved use 2>, %l: tensor<2xf64> as <saved use 3>) -> () {
  // expected-error@+1 {{[cross_entropy_combine_c6] logits_shift must map axes to positive strides}}
  %a, %b = weft.cross_entropy_combine %p, %t, %x, %l {loss_weight = 1.0 : f64, logits_vocabulary = 9 : i64, logits_shift = {x = 1 : i32}} : (tensor<8x2xf32>, tensor<4xi32>, tensor<4x6xf32>, tensor<2xf64>) -> (tensor<4xf32>, tensor<2xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_partial_c1] result (rows x statistics) must be 4x2, got 4x1}}
  %0 = weft.norm_partial %x : (tensor<4x6xf32>) -> tensor<4x1xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_partial_c2] result must hold 'f32', got 'bf16'}}
  %0 = weft.norm_partial %x : (tensor<4x6xf32>) -> tensor<4x2xbf16>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x1xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_combine_c1] partials must be one or more parts of 4x2, got 8x1}}
  %a, %b = weft.norm_combine %p {epsilon = 1.0e-5 : f64, whole_columns = 12 : i64} : (tensor<8x1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_combine_c2] must make a mean if, and only if, root_mean_square is not set}}
  %0 = weft.norm_combine %p {epsilon = 1.0 : f64, whole_columns = 12 : i64} : (tensor<8x2xf32>) -> tensor<4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_combine_c3] mean (like rstd) must be of type 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %a, %b = weft.norm_combine %p {epsilon = 1.0e-5 : f64, whole_columns = 12 : i64} : (tensor<8x2xf32>) -> (tensor<5xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_combine_c4] epsilon must be positive and finite}}
  %a, %b = weft.norm_combine %p {epsilon = 0.0 : f64, whole_columns = 12 : i64} : (tensor<8x2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x2xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_combine_c5] whole_columns must be positive, got 0}}
  %a, %b = weft.norm_combine %p {epsilon = 1.0e-5 : f64, whole_columns = 0 : i64} : (tensor<8x2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<5xf32> as <saved use 1>, %b: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_apply_c1] gamma (columns of x) must be 6, got 5}}
  %0 = weft.norm_apply %x, %g beta %b mean %m rstd %r {row_columns = 12 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<5xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>, %b: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<5xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_apply_c2] rstd (rows of x) must be 4, got 5}}
  %0 = weft.norm_apply %x, %g beta %b mean %m rstd %r {row_columns = 12 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<5xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>, %b: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf64> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_apply_c3] rstd must hold 'f32', got 'f64'}}
  %0 = weft.norm_apply %x, %g beta %b mean %m rstd %r {row_columns = 12 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf64>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>, %b: tensor<6xf32> as <saved use 2>, %r: tensor<4xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[norm_apply_c4] must take a mean if, and only if, root_mean_square is not set}}
  %0 = weft.norm_apply %x, %g beta %b rstd %r {row_columns = 12 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>, %m: tensor<4xf32> as <saved use 2>, %r: tensor<4xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[norm_apply_c5] must take a beta if, and only if, root_mean_square is not set}}
  %0 = weft.norm_apply %x, %g mean %m rstd %r {row_columns = 12 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>, %b: tensor<5xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_apply_c6] beta (columns of x) must be 6, got 5}}
  %0 = weft.norm_apply %x, %g beta %b mean %m rstd %r {row_columns = 12 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<6xf32>, tensor<5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>, %b: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_apply_c7] result (like x) must be 4x6, got 4x5}}
  %0 = weft.norm_apply %x, %g beta %b mean %m rstd %r {row_columns = 12 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %g: tensor<6xf32> as <saved use 1>, %b: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_apply_c8] row_columns must be at least the columns of x, got 5}}
  %0 = weft.norm_apply %x, %g beta %b mean %m rstd %r {row_columns = 5 : i64, over = {y = array<i64>}, members = 2 : i64, algorithm = "ring"} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x5xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_backward_partial_c5] dy (like x) must be 4x6, got 4x5}}
  %0 = weft.norm_backward_partial %d, %x, %g mean %m rstd %r : (tensor<4x5xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x2xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x6xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_backward_partial_c6] result (rows x sums) must be 4x2, got 4x3}}
  %0 = weft.norm_backward_partial %d, %x, %g mean %m rstd %r : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x6xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>) -> () {
  // expected-error@+1 {{[norm_backward_partial_c7] result must hold 'f32', got 'f64'}}
  %0 = weft.norm_backward_partial %d, %x, %g mean %m rstd %r : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x2xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x5xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>, %s: tensor<4x2xf32> as <saved use 5>) -> () {
  // expected-error@+1 {{[norm_backward_apply_c5] dy (like x) must be 4x6, got 4x5}}
  %0 = weft.norm_backward_apply %d, %x, %g mean %m rstd %r, %s {whole_columns = 12 : i64} : (tensor<4x5xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x2xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x6xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>, %s: tensor<4x1xf32> as <saved use 5>) -> () {
  // expected-error@+1 {{[norm_backward_apply_c6] sums (rows x sums) must be 4x2, got 4x1}}
  %0 = weft.norm_backward_apply %d, %x, %g mean %m rstd %r, %s {whole_columns = 12 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x6xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>, %s: tensor<4x2xf32> as <saved use 5>) -> () {
  // expected-error@+1 {{[norm_backward_apply_c7] result (like x) must be 4x6, got 5x6}}
  %0 = weft.norm_backward_apply %d, %x, %g mean %m rstd %r, %s {whole_columns = 12 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x2xf32>) -> tensor<5x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x6xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>, %s: tensor<4x2xf32> as <saved use 5>, %i: tensor<4x6xbf16> as <saved use 6>) -> () {
  // expected-error@+1 {{[norm_backward_apply_c8] init (like the result) must be of type 'tensor<4x6xf32>', got 'tensor<4x6xbf16>'}}
  %0 = weft.norm_backward_apply %d, %x, %g mean %m rstd %r, %s init %i {whole_columns = 12 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x2xf32>, tensor<4x6xbf16>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%d: tensor<4x6xf32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>, %g: tensor<6xf32> as <saved use 2>, %m: tensor<4xf32> as <saved use 3>, %r: tensor<4xf32> as <saved use 4>, %s: tensor<4x2xf32> as <saved use 5>) -> () {
  // expected-error@+1 {{[norm_backward_apply_c9] whole_columns must be at least the columns of x, got 5}}
  %0 = weft.norm_backward_apply %d, %x, %g mean %m rstd %r, %s {whole_columns = 5 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x2xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%t: tensor<6xi32> as <saved use 0>, %w: tensor<8x4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[embedding_c2] column_shift must map axes to positive strides}}
  %0 = weft.embedding %t, %w {column_shift = {x = -8 : i64}} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%w: tensor<8x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[position_embedding_c4] row_shift must map axes to positive strides}}
  %0 = weft.position_embedding %w {sequence = 4 : i64, row_shift = {x = 0 : i64}} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_c1] column_shift must map axes to positive strides}}
  %0 = weft.dropout %x {dropout = 0.1 : f64, column_shift = {x = 0 : i64}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_c1] a column_shift needs whole_columns of at least 6, got 0}}
  %0 = weft.dropout %x {dropout = 0.1 : f64, column_shift = {x = 6 : i64}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[dropout_c1] a row_shift needs the sequence}}
  %0 = weft.dropout %x {dropout = 0.1 : f64, row_shift = {x = 4 : i64}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%t: tensor<4xi32> as <saved use 0>, %x: tensor<4x6xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[embedding_backward_c3] column_shift must map axes to positive strides}}
  %0 = weft.embedding_backward %t, %x {column_shift = {x = 0 : i64}} : (tensor<4xi32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[position_embedding_backward_c4] row_shift must map axes to positive strides}}
  %0 = weft.position_embedding_backward %x {sequence = 4 : i64, row_shift = {x = 0 : i64}} : (tensor<4x6xf32>) -> tensor<8x6xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x6xf32> as <saved use 0>, %e: tensor<4xf32> as <saved use 1>, %t: tensor<4xi32> as <saved use 2>) -> () {
  // expected-error@+1 {{[cross_entropy_backward_c6] column_shift must map axes to positive strides}}
  %0 = weft.cross_entropy_backward %x, %e, %t {vocabulary = 6 : i64, loss_weight = 1.0 : f64, column_shift = {x = 0 : i64}} : (tensor<4x6xf32>, tensor<4xf32>, tensor<4xi32>) -> tensor<4x6xf32>
  weft.return
}
