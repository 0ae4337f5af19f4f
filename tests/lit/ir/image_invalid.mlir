// Verifiers of the kernels of image models; each rule is broken once.
// RUN: weft-opt %s -split-input-file -verify-diagnostics

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x3xf32>
  %w = weft.parameter 1 : tensor<4x3x3x3xf32>
  // expected-error@+1 {{[convolution_c1] height x width = 3 x 2 must be positive}}
  %y = weft.conv2d %x, %w {height = 3 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x3xf32>, tensor<4x3x3x3xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x3xf32>
  %w = weft.parameter 1 : tensor<4x3x3x3xf32>
  // expected-error@+1 {{[convolution_c2] kernel_size = 2 must be odd}}
  %y = weft.conv2d %x, %w {height = 2 : i64, width = 2 : i64, kernel_size = 2 : i64, stride = 1 : i64} : (tensor<8x3xf32>, tensor<4x3x3x3xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x3xf32>
  %w = weft.parameter 1 : tensor<4x2x3x3xf32>
  // expected-error@+1 {{[convolution_c3] weight (outputs x inputs x side x side) must be 4x3x3x3, got 4x2x3x3}}
  %y = weft.conv2d %x, %w {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x3xf32>, tensor<4x2x3x3xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x3xf32>
  %w = weft.parameter 1 : tensor<4x3x3x3xf32>
  // expected-error@+1 {{[convolution_c4] the convolution's output (positions x outputs) must be 8x4, got 2x4}}
  %y = weft.conv2d %x, %w {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x3xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x3xf32>
  %w = weft.parameter 1 : tensor<4x3x3x3xf32>
  %b = weft.parameter 2 : tensor<3xf32>
  // expected-error@+1 {{[conv2d_c1] bias (columns of the result) must be 4, got 3}}
  %y = weft.conv2d %x, %w bias %b {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x3xf32>, tensor<4x3x3x3xf32>, tensor<3xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x4xf32>
  %w = weft.parameter 1 : tensor<4x3x3x3xf32>
  %i = weft.parameter 2 : tensor<8x3xf64>
  // expected-error@+1 {{[conv2d_backward_c1] init (like the result) must be of type 'tensor<8x3xf32>', got 'tensor<8x3xf64>'}}
  %y = weft.conv2d_backward %dy, %w init %i {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<4x3x3x3xf32>, tensor<8x3xf64>) -> tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x4xf32>
  %x = weft.parameter 1 : tensor<8x3xf32>
  %i = weft.parameter 2 : tensor<4x3x3x3xf64>
  // expected-error@+1 {{[conv2d_backward_weight_c1] init (like the result) must be of type 'tensor<4x3x3x3xf32>', got 'tensor<4x3x3x3xf64>'}}
  %y = weft.conv2d_backward_weight %dy, %x init %i {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<8x3xf32>, tensor<4x3x3x3xf64>) -> tensor<4x3x3x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x4xf32>
  %g = weft.parameter 1 : tensor<4xf32>
  %b = weft.parameter 2 : tensor<4xf32>
  // expected-error@+1 {{[groups_c1] groups = 3 must divide the 4 columns}}
  %y:3 = weft.group_norm %x, %g, %b {groups = 3 : i64, sequence = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x4xf32>
  %g = weft.parameter 1 : tensor<4xf32>
  %b = weft.parameter 2 : tensor<4xf32>
  // expected-error@+1 {{[groups_c2] sequence = 3 must divide the 8 rows}}
  %y:3 = weft.group_norm %x, %g, %b {groups = 2 : i64, sequence = 3 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x4xf32>
  %g = weft.parameter 1 : tensor<4xf32>
  %b = weft.parameter 2 : tensor<4xf32>
  // expected-error@+1 {{[groups_c3] mean (samples x groups) must be 2x2, got 2x4}}
  %y:3 = weft.group_norm %x, %g, %b {groups = 2 : i64, sequence = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x4xf32>, tensor<2x2xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x4xf32>
  %g = weft.parameter 1 : tensor<4xf32>
  %b = weft.parameter 2 : tensor<4xf32>
  // expected-error@+1 {{[groups_c4] rstd must hold 'f32', got 'bf16'}}
  %y:3 = weft.group_norm %x, %g, %b {groups = 2 : i64, sequence = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xbf16>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x4xf32>
  %g = weft.parameter 1 : tensor<4xf32>
  %b = weft.parameter 2 : tensor<3xf32>
  // expected-error@+1 {{[group_norm_c1] beta (columns of x) must be 4, got 3}}
  %y:3 = weft.group_norm %x, %g, %b {groups = 2 : i64, sequence = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<3xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x4xf32>
  %g = weft.parameter 1 : tensor<4xf32>
  %b = weft.parameter 2 : tensor<4xf32>
  // expected-error@+1 {{[group_norm_c2] result (like x) must be 8x4, got 8x5}}
  %y:3 = weft.group_norm %x, %g, %b {groups = 2 : i64, sequence = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x5xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x4xf32>
  %g = weft.parameter 1 : tensor<4xf32>
  %b = weft.parameter 2 : tensor<4xf32>
  // expected-error@+1 {{[group_norm_c3] epsilon must be positive and finite}}
  %y:3 = weft.group_norm %x, %g, %b {groups = 2 : i64, sequence = 4 : i64, epsilon = 0.0 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x4xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  %g = weft.parameter 2 : tensor<3xf32>
  %m = weft.parameter 3 : tensor<2x2xf32>
  %r = weft.parameter 4 : tensor<2x2xf32>
  %i = weft.parameter 5 : tensor<8x4xf32>
  // expected-error@+1 {{[group_norm_backward_c1] gamma (columns of x) must be 4, got 3}}
  %y = weft.group_norm_backward %dy, %x, %g, %m, %r init %i {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<3xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x3xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  %g = weft.parameter 2 : tensor<4xf32>
  %m = weft.parameter 3 : tensor<2x2xf32>
  %r = weft.parameter 4 : tensor<2x2xf32>
  %i = weft.parameter 5 : tensor<8x4xf32>
  // expected-error@+1 {{[group_norm_backward_c2] dy (like x) must be 8x4, got 8x3}}
  %y = weft.group_norm_backward %dy, %x, %g, %m, %r init %i {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x3xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x4xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  %g = weft.parameter 2 : tensor<4xf32>
  %m = weft.parameter 3 : tensor<2x2xf32>
  %r = weft.parameter 4 : tensor<2x2xf32>
  %i = weft.parameter 5 : tensor<8x4xf64>
  // expected-error@+1 {{[group_norm_backward_c3] init (like the result) must be of type}}
  %y = weft.group_norm_backward %dy, %x, %g, %m, %r init %i {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<8x4xf64>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x3xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  %m = weft.parameter 2 : tensor<2x2xf32>
  %r = weft.parameter 3 : tensor<2x2xf32>
  // expected-error@+1 {{[group_norm_backward_weight_c1] dy (like x) must be 8x4, got 8x3}}
  %y:2 = weft.group_norm_backward_weight %dy, %x, %m, %r {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x3xf32>, tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x4xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  %m = weft.parameter 2 : tensor<2x2xf32>
  %r = weft.parameter 3 : tensor<2x2xf32>
  // expected-error@+1 {{[group_norm_backward_weight_c2] dgamma (columns of x) must be 4, got 3}}
  %y:2 = weft.group_norm_backward_weight %dy, %x, %m, %r {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<3xf32>, tensor<4xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x4xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  %m = weft.parameter 2 : tensor<2x2xf32>
  %r = weft.parameter 3 : tensor<2x2xf32>
  %i = weft.parameter 4 : tensor<4xf32>
  %j = weft.parameter 5 : tensor<4xf64>
  // expected-error@+1 {{[group_norm_backward_weight_c4] init of beta (like the result) must be of type}}
  %y:2 = weft.group_norm_backward_weight %dy, %x, %m, %r init %i, %j {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %dy = weft.parameter 0 : tensor<8x4xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  %m = weft.parameter 2 : tensor<2x2xf32>
  %r = weft.parameter 3 : tensor<2x2xf32>
  %i = weft.parameter 4 : tensor<4xf32>
  // expected-error@+1 {{[group_norm_backward_weight_c3] must take an init for both results or for none}}
  %y:2 = "weft.group_norm_backward_weight"(%dy, %x, %m, %r, %i) {groups = 2 : i64, sequence = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %a = weft.parameter 0 : tensor<8x3xf32>
  %b = weft.parameter 1 : tensor<6x2xf32>
  // expected-error@+1 {{[concat_columns_c1] b (rows of a) must be 8x2, got 6x2}}
  %y = weft.concat_columns %a, %b : (tensor<8x3xf32>, tensor<6x2xf32>) -> tensor<8x5xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %a = weft.parameter 0 : tensor<8x3xf32>
  %b = weft.parameter 1 : tensor<8x2xf32>
  // expected-error@+1 {{[concat_columns_c2] result (columns of a and b) must be 8x5, got 8x6}}
  %y = weft.concat_columns %a, %b : (tensor<8x3xf32>, tensor<8x2xf32>) -> tensor<8x6xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[slice_columns_c1] the result takes 3 columns from column 3 on, but groups x columns of x = 5}}
  %y = weft.slice_columns %x {first_column = 3 : i64} : (tensor<8x5xf32>) -> tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[slice_columns_c2] result (rows of x) must be 8x3, got 7x3}}
  %y = weft.slice_columns %x {first_column = 2 : i64} : (tensor<8x5xf32>) -> tensor<7x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[slice_columns_c3] groups = 3 must divide x's 8 rows}}
  %y = weft.slice_columns %x {first_column = 0 : i64, groups = 3 : i64} : (tensor<8x5xf32>) -> tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[slice_columns_c4] column_shift must map axes to positive strides}}
  %y = weft.slice_columns %x {column_shift = {x = 0 : i64}, first_column = 0 : i64} : (tensor<8x5xf32>) -> tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[slice_columns_c5] `over` must name one axis, and come with at least two members and an algorithm}}
  %y = weft.slice_columns %x {first_column = 0 : i64, over = {x = array<i64>}} : (tensor<8x5xf32>) -> tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[slice_columns_c6] can take a part only of gathered columns}}
  %y = weft.slice_columns %x part %x {first_column = 0 : i64} : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[slice_columns_c7] part (one of the groups) must be 4x5, got 8x5}}
  %y = weft.slice_columns %x part %x {algorithm = "ring", first_column = 0 : i64, groups = 2 : i64, members = 2 : i64, over = {x = array<i64>}} : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<4x10xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[upsample_c1] height x width = 3 x 1 must be positive}}
  %y = weft.upsample %x {height = 3 : i64, width = 1 : i64} : (tensor<8x5xf32>) -> tensor<32x5xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[upsample_c2] result (four rows for each of x) must be 32x5, got 16x5}}
  %y = weft.upsample %x {height = 2 : i64, width = 2 : i64} : (tensor<8x5xf32>) -> tensor<16x5xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<32x5xf32>
  // expected-error@+1 {{[upsample_backward_c1] height x width = 3 x 1 must be positive}}
  %y = weft.upsample_backward %x {height = 3 : i64, width = 1 : i64} : (tensor<32x5xf32>) -> tensor<8x5xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<16x5xf32>
  // expected-error@+1 {{[upsample_backward_c2] dy (four rows for each of the result) must be 32x5, got 16x5}}
  %y = weft.upsample_backward %x {height = 2 : i64, width = 2 : i64} : (tensor<16x5xf32>) -> tensor<8x5xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  %e = weft.parameter 1 : tensor<2x5xf32>
  // expected-error@+1 {{[per_sample_c1] sequence = 3 must divide the 8 rows}}
  %y = weft.add_per_sample %x, %e {sequence = 3 : i64} : (tensor<8x5xf32>, tensor<2x5xf32>) -> tensor<8x5xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  // expected-error@+1 {{[per_sample_c2] the rows per sample must be 2x5, got 4x5}}
  %y = weft.sum_per_sample %x {sequence = 4 : i64} : (tensor<8x5xf32>) -> tensor<4x5xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  %e = weft.parameter 1 : tensor<2x5xf32>
  // expected-error@+1 {{[add_per_sample_c1] result (like x) must be 8x5, got 8x4}}
  %y = weft.add_per_sample %x, %e {sequence = 4 : i64} : (tensor<8x5xf32>, tensor<2x5xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  %e = weft.parameter 1 : tensor<2x10xf32>
  // expected-error@+1 {{[scale_shift_c1] result (like x) must be 8x5, got 8x4}}
  %y = weft.scale_shift %x, %e {sequence = 4 : i64} : (tensor<8x5xf32>, tensor<2x10xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<8x5xf32>
  %e = weft.parameter 1 : tensor<2x10xf32>
  // expected-error@+1 {{[scale_shift_backward_c1] result (like dy) must be 8x5, got 8x4}}
  %y = weft.scale_shift_backward %x, %e {sequence = 4 : i64} : (tensor<8x5xf32>, tensor<2x10xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %d = weft.parameter 0 : tensor<8x5xf32>
  %x = weft.parameter 1 : tensor<8x4xf32>
  // expected-error@+1 {{[scale_shift_backward_sample_c1] x (like dy) must be 8x5, got 8x4}}
  %y = weft.scale_shift_backward_sample %d, %x {sequence = 4 : i64} : (tensor<8x5xf32>, tensor<8x4xf32>) -> tensor<2x10xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  // expected-error@+1 {{[load_timesteps_c1] diffusion_steps must be between 1 and 2^20, got 0}}
  %y = weft.load_timesteps {diffusion_steps = 0 : i64} : tensor<2xi32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  // expected-error@+1 {{[load_noisy_image_c1] sequence = 3 must divide the 8 rows}}
  %y = weft.load_noisy_image {sequence = 3 : i64, diffusion_steps = 10 : i64} : tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  // expected-error@+1 {{[load_noisy_image_c2] diffusion_steps must be between 1 and 2^20, got -1}}
  %y = weft.load_noisy_image {sequence = 4 : i64, diffusion_steps = -1 : i64} : tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  // expected-error@+1 {{[load_noise_c1] sequence = 0 must divide the 8 rows}}
  %y = weft.load_noise {sequence = 0 : i64} : tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %t = weft.load_timesteps {diffusion_steps = 4 : i64} : tensor<2xi32>
  // expected-error@+1 {{[timestep_embedding_c1] result (a row per time) must be 2x4, got 3x4}}
  %y = weft.timestep_embedding %t {timestep_scale = 1.0 : f64} : (tensor<2xi32>) -> tensor<3x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %t = weft.load_timesteps {diffusion_steps = 4 : i64} : tensor<2xi32>
  // expected-error@+1 {{[timestep_embedding_c2] timestep_scale must be positive and finite}}
  %y = weft.timestep_embedding %t {timestep_scale = 0.0 : f64} : (tensor<2xi32>) -> tensor<2x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %p = weft.parameter 0 : tensor<8x3xf32>
  %t = weft.parameter 1 : tensor<8x3xf32>
  // expected-error@+1 {{[squared_error_c1] sequence = 3 must divide the 8 rows}}
  %y = weft.squared_error %p, %t, %losses {sequence = 3 : i64, loss_weight = 1.0 : f64} : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<2xf64>) -> tensor<2xf64>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %p = weft.parameter 0 : tensor<8x3xf32>
  %t = weft.parameter 1 : tensor<8x4xf32>
  // expected-error@+1 {{[squared_error_c2] target (like the prediction) must be 8x3, got 8x4}}
  %y = weft.squared_error %p, %t, %losses {sequence = 4 : i64, loss_weight = 1.0 : f64} : (tensor<8x3xf32>, tensor<8x4xf32>, tensor<2xf64>) -> tensor<2xf64>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %p = weft.parameter 0 : tensor<8x3xf32>
  %t = weft.parameter 1 : tensor<8x3xf32>
  // expected-error@+1 {{[squared_error_c3] new_losses (like losses) must be of type 'tensor<2xf64>', got 'tensor<3xf64>'}}
  %y = weft.squared_error %p, %t, %losses {sequence = 4 : i64, loss_weight = 1.0 : f64} : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<2xf64>) -> tensor<3xf64>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %p = weft.parameter 0 : tensor<8x3xf32>
  %t = weft.parameter 1 : tensor<8x4xf32>
  // expected-error@+1 {{[squared_error_backward_c1] target (like the prediction) must be 8x3, got 8x4}}
  %y = weft.squared_error_backward %p, %t {loss_weight = 1.0 : f64} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<8x3xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %p = weft.parameter 0 : tensor<8x3xf32>
  %t = weft.parameter 1 : tensor<8x3xf32>
  // expected-error@+1 {{[squared_error_backward_c2] result (like the prediction) must be 8x3, got 8x4}}
  %y = weft.squared_error_backward %p, %t {loss_weight = 1.0 : f64} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

weft.segment @s forward stage 0 (%p: tensor<8x3xf32> as <saved use 0>, %s: tensor<2xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[squared_error_backward_c3] scale (rule P11) must be 3, got 2}}
  %y = weft.squared_error_backward %p, %p, %s {loss_weight = 1.0 : f64} : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<2xf64>) -> tensor<8x3xf32>
  weft.return
}
