// RUN: weft-opt %s --weft-print-segments -o /dev/null | FileCheck %s

// Three parts of 16 elements have six elements each, two more than 16 in total.
weft.tensor @w index 0 shape [4, 4] : tensor<4x4xf32> {room = 18 : i64, state_ranges = ["data"], state_type = tensor<6xf32>}
weft.tensor @v index 1 shape [4, 4] : tensor<6xf32> {grad_ranges = ["data"], padded = array<i64: 4, 4>, ranges = ["data"], state_ranges = ["data"]}

// A parameter has padding for the gather after the optimizer. A weight that is gathered here has its padding in the
// workspace, and is read without it.
// CHECK: name: "stage0.forward"
// CHECK-SAME: operands { name: "param w" bytes: 72 access: READ }
// CHECK-SAME: operands { name: "param v" bytes: 24 access: READ }
// CHECK-SAME: operands { name: "workspace" bytes: 512 access: WRITE }
// CHECK-SAME: values { name: "param w" operand: 2 dtype: FP32 shape: [4, 4] }
// CHECK-SAME: values { name: "v with room" operand: 4 dtype: FP32 shape: [18] }
// CHECK-SAME: steps { name: "v" kernel: GROUP_ALL_GATHER inputs: [3] outputs: [6] work { bytes: 96 dtype: FP32 }
// CHECK-SAME: steps { name: "b" kernel: MATMUL
weft.segment @stage0.forward forward stage 0 (%x: tensor<4x4xf32> as <input>, %p: tensor<4x4xf32> as <param tensor 0>,
    %q: tensor<6xf32> as <param tensor 1>) -> (<output>) {
  %v = weft.group_all_gather (%q) over {data = array<i64>} members 3 gather_weights "ring" {name = "v", blocking} : (tensor<6xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %x, %p {name = "a"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = weft.matmul %a, %v {name = "b"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %b : tensor<4x4xf32>
}

// A gradient that is scattered ends in zeros, which are written before the gradient.
// CHECK: name: "stage0.backward"
// CHECK-SAME: operands { name: "grad v" bytes: 24 access: READ_WRITE }
// CHECK-SAME: values { name: "dv with room" operand: {{[0-9]+}} dtype: FP32 shape: [18] }
// CHECK-SAME: values { name: "dv end" operand: {{[0-9]+}} offset: 64 dtype: FP32 shape: [2] }
// CHECK-SAME: steps { name: "zero end of dv" kernel: FILL outputs: [{{[0-9]+}}] work { bytes: 8 dtype: FP32 } }
// CHECK-SAME: steps { name: "dv" kernel: MATMUL
// CHECK-SAME: steps { name: "scatter" kernel: GROUP_REDUCE_SCATTER {{.*}} work { bytes: 96 dtype: FP32 } stream: COLLECTIVE deps: [1]
weft.segment @stage0.backward backward stage 0 (%x: tensor<4x4xf32> as <input>, %dy: tensor<4x4xf32> as <output_grad>,
    %g: tensor<6xf32> as <grad tensor 1>) -> (<grad tensor 1>) {
  %dv = weft.matmul %x, %dy {name = "dv", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = weft.group_reduce_scatter (%dv) init (%g) over {data = array<i64>} members 3 scatter_gradients "ring" {name = "scatter", blocking} : (tensor<4x4xf32>, tensor<6xf32>) -> tensor<6xf32>
  weft.return %g1 : tensor<6xf32>
}
