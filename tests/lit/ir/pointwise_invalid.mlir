// RUN: weft-opt %s -split-input-file -verify-diagnostics
// Kernels in which no element depends on its neighbors.

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %y: tensor<6x3xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[pointwise_c1] operand 1 (like operand 0) must be 6x4, got 6x3}}
  %0 = weft.swiglu %x, %y : (tensor<6x4xf32>, tensor<6x3xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[pointwise_c1] result 0 (like operand 0) must be 6x4, got 6x5}}
  %0 = weft.gelu %x : (tensor<6x4xf32>) -> tensor<6x5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %y: tensor<6x5xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[pointwise_c1] operand 1 (like operand 0) must be 6x5, got 6x4}}
  %0 = weft.gelu_backward %y, %x : (tensor<6x5xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[pointwise_c1] result 1 (like operand 0) must be 6x4, got 6x3}}
  %0:2 = weft.swiglu_backward %x, %x, %x : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x3xf32>)
  weft.return
}

// -----

weft.graph @g {
^bb0(%losses: tensor<2xf64>):
  %x = weft.parameter 0 : tensor<4xf32>
  // expected-error@+1 {{[pointwise_c1] result 0 (like operand 0) must be 4, got 5}}
  %y = weft.silu %x : (tensor<4xf32>) -> tensor<5xf32>
  weft.yield %losses : tensor<2xf64>
}
