// RUN: weft-opt %s --weft-print-segments -o /dev/null | FileCheck %s

weft.tensor @w index 0 shape [4, 4] : tensor<4x4xf32>

// A forward: returned values are in its operands, all others in the workspace. "act" reuses the bytes of "a", which is
// dead when "act" is made; "b" overlaps neither.
// CHECK: name: "stage0.forward"
// CHECK-SAME: operands { name: "input" bytes: 64 access: READ }
// CHECK-SAME: operands { name: "output" bytes: 64 access: WRITE }
// CHECK-SAME: operands { name: "saved" bytes: 128 access: WRITE }
// CHECK-SAME: operands { name: "param w" bytes: 64 access: READ }
// CHECK-SAME: operands { name: "workspace" bytes: 512 access: WRITE }
// CHECK-SAME: values { name: "input" dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "output" operand: 1 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "saved 0" operand: 2 dtype: INT32 shape: [4] }
// CHECK-SAME: values { name: "saved 1" operand: 2 offset: 64 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "param w" operand: 3 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "a" operand: 4 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "b" operand: 4 offset: 256 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "act" operand: 4 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: steps { name: "tokens" kernel: LOAD_TOKENS outputs: [2] work { bytes: 16 dtype: INT32 } }
// CHECK-SAME: steps { name: "s" kernel: GELU inputs: [0] outputs: [3] attributes { tanh_approximation: true } work { bytes: 128 dtype: FP32 } }
// CHECK-SAME: steps { name: "a" kernel: MATMUL inputs: [3, 4] outputs: [5] attributes { transpose_b: true } work { flops: 128 bytes: 192 dtype: FP32 } }
// CHECK-SAME: steps { name: "b" kernel: ADD inputs: [5, 3] outputs: [6]
// CHECK-SAME: steps { name: "act" kernel: GELU inputs: [6] outputs: [7]
// CHECK-SAME: steps { name: "y" kernel: ADD inputs: [7, 0] outputs: [1]
weft.segment @stage0.forward forward stage 0 (%x: tensor<4x4xf32> as <input>, %w: tensor<4x4xf32> as <param tensor 0>)
    -> (<output>, <saved>, <saved use 1>) {
  %tokens = weft.load_tokens {name = "tokens"} : tensor<4xi32>
  %s = weft.gelu %x {name = "s", tanh_approximation} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %s, %w {name = "a", transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = weft.add %a, %s {name = "b"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = weft.gelu %b {name = "act"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = weft.add %act, %x {name = "y"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %y, %tokens, %s : tensor<4x4xf32>, tensor<4xi32>, tensor<4x4xf32>
}

// A backward: saved values have the same layout, and a gradient accumulates in place.
// CHECK: name: "stage0.backward"
// CHECK-SAME: operands { name: "saved" bytes: 128 access: READ }
// CHECK-SAME: operands { name: "grad w" bytes: 64 access: READ_WRITE }
// CHECK-SAME: values { name: "saved 0" dtype: INT32 shape: [4] }
// CHECK-SAME: values { name: "saved 1" offset: 64 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "grad w" operand: 1 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: steps { name: "dw" kernel: EMBEDDING_BACKWARD inputs: [0, 1] outputs: [2] accumulate: true work { bytes: 208 dtype: FP32 } }
weft.segment @stage0.backward backward stage 0 (%tokens: tensor<4xi32> as <saved>,
    %s: tensor<4x4xf32> as <saved use 1>, %dw: tensor<4x4xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
  %0 = weft.embedding_backward %tokens, %s init %dw {name = "dw"} : (tensor<4xi32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %0 : tensor<4x4xf32>
}

// An optimizer step: updates in place, then fills the gradient's storage; the rounded parameter is only written.
// CHECK: name: "stage0.optimizer_step"
// CHECK-SAME: operands { name: "param w" bytes: 32 access: WRITE }
// CHECK-SAME: operands { name: "master w" bytes: 64 access: READ_WRITE }
// CHECK-SAME: operands { name: "grad w" bytes: 64 access: READ_WRITE }
// CHECK-SAME: steps { name: "sgd" kernel: SGD_STEP inputs: [2, 1] outputs: [1, 0] attributes { weight_decay: 0.5 }
// CHECK-SAME: steps { name: "zero" kernel: FILL outputs: [2] work { bytes: 64 dtype: FP32 } }
weft.segment @stage0.optimizer_step optimizer_step stage 0 (%g: tensor<4x4xf32> as <grad tensor 0>,
    %w: tensor<4x4xf32> as <master tensor 0>) -> (<master tensor 0>, <grad tensor 0>, <param tensor 0>) {
  %0:2 = weft.sgd_step %g, %w {name = "sgd", momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 1>, weight_decay = 0.5 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xbf16>)
  %zero = weft.fill {name = "zero", value = 0.0 : f64} : tensor<4x4xf32>
  weft.return %0#0, %zero, %0#1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xbf16>
}
