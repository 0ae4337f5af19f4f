// RUN: weft-opt %s --weft-print-segments -o /dev/null | FileCheck %s

weft.tensor @w index 0 shape [8] : tensor<8xf32>

// The first gather is blocking, the second runs beside the first product. Its bytes hold nothing else from its position
// in the list to the product that waits for it. The sum is made in place.
// CHECK: name: "stage0.forward"
// CHECK-SAME: operands { name: "workspace" bytes: 768 access: WRITE }
// CHECK-SAME: values { name: "w1" operand: 3 dtype
// CHECK-SAME: values { name: "w2" operand: 3 offset: 256 dtype
// CHECK-SAME: values { name: "a" operand: 3 offset: 512 dtype
// CHECK-SAME: steps { name: "w1" kernel: GROUP_ALL_GATHER inputs: [{{[0-9, ]+}}] outputs: [{{[0-9]+}}] work { bytes: 96 dtype: FP32 } stream: COLLECTIVE collective { group { axes { axis: "z" } } purpose: GATHER_WEIGHTS algorithm: "ring" } }
// CHECK-SAME: steps { name: "w2" kernel: GROUP_ALL_GATHER inputs: [{{[0-9, ]+}}] outputs: [{{[0-9]+}}] work { bytes: 96 dtype: FP32 } stream: COLLECTIVE deps: [0] collective { group { axes { axis: "z" } } purpose: GATHER_WEIGHTS algorithm: "ring" } }
// CHECK-SAME: steps { name: "a" kernel: MATMUL inputs: [{{[0-9, ]+}}] outputs: [{{[0-9]+}}] work { flops: 128 bytes: 192 dtype: FP32 } deps: [0] }
// CHECK-SAME: steps { name: "b" kernel: MATMUL inputs: [{{[0-9, ]+}}] outputs: [1] work { flops: 128 bytes: 192 dtype: FP32 } deps: [1] }
// CHECK-SAME: steps { name: "sum" kernel: GROUP_ALL_REDUCE inputs: [1] outputs: [1] work { bytes: 128 dtype: FP32 } stream: COLLECTIVE deps: [3] collective { group { axes { axis: "data" block: 2 } axes { axis: "x" } } purpose: TENSOR algorithm: "tree" } }
weft.segment @stage0.forward forward stage 0 (%x: tensor<4x4xf32> as <input>, %p: tensor<8xf32> as <param tensor 0>)
    -> (<output>) {
  %w1 = weft.group_all_gather (%p) over {z = array<i64>} members 2 gather_weights "ring" {name = "w1", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %w2 = weft.group_all_gather (%p) over {z = array<i64>} members 2 gather_weights "ring" {name = "w2"} : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %x, %w1 {name = "a"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = weft.matmul %a, %w2 {name = "b"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = weft.group_all_reduce (%b) over {data = {block = 2 : i64}, x = array<i64>} members 4 tensor "tree" {name = "sum", blocking} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %sum : tensor<4x4xf32>
}

// Inputs of a detached step are not in the workspace, and only the step touches the gradient.
// CHECK: name: "stage0.backward"
// CHECK-SAME: operands { name: "grad w" bytes: 32 access: READ_WRITE }
// CHECK-SAME: operands { name: "workspace" bytes: 512 access: WRITE }
// CHECK-SAME: operands { name: "deferred" bytes: 256 access: WRITE }
// CHECK-SAME: values { name: "dw2" operand: 4 offset: 256 dtype
// CHECK-SAME: values { name: "dw" operand: 5 dtype
// CHECK-SAME: steps { name: "scatter" kernel: GROUP_REDUCE_SCATTER inputs: [{{[0-9, ]+}}] outputs: [{{[0-9]+}}] accumulate: true work { bytes: 96 dtype: FP32 } stream: COLLECTIVE deps: [1] detached: true
weft.segment @stage0.backward backward stage 0 (%x: tensor<4x4xf32> as <input>, %dy: tensor<4x4xf32> as <output_grad>,
    %g: tensor<8xf32> as <grad tensor 0>) -> (<input_grad>, <grad tensor 0>) {
  %t = weft.gelu %dy {name = "t"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw = weft.matmul %x, %t {name = "dw", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = weft.group_reduce_scatter (%dw) init (%g) over {z = array<i64>} members 2 scatter_gradients "ring" {name = "scatter", detached} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %dw2 = weft.gelu %t {name = "dw2"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %dx = weft.gelu %dw2 {name = "dx"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %dx, %g1 : tensor<4x4xf32>, tensor<8xf32>
}

// The gradients of two layers wait for their scatters at a time. The third layer's gradient reuses the bytes of the
// first and waits for its scatter.
// CHECK: name: "stage1.backward"
// CHECK-SAME: operands { name: "deferred" bytes: 512 access: WRITE }
// CHECK-SAME: values { name: "dw2" operand: {{[0-9]+}} dtype
// CHECK-SAME: values { name: "dw1" operand: {{[0-9]+}} offset: 256 dtype
// CHECK-SAME: values { name: "dw0" operand: {{[0-9]+}} dtype
// CHECK-SAME: steps { name: "dw1" kernel: MATMUL inputs: [{{[0-9, ]+}}] outputs: [{{[0-9]+}}] attributes { transpose_a: true } work { flops: 128 bytes: 192 dtype: FP32 } }
// CHECK-SAME: steps { name: "dw0" kernel: MATMUL inputs: [{{[0-9, ]+}}] outputs: [{{[0-9]+}}] attributes { transpose_a: true } work { flops: 128 bytes: 192 dtype: FP32 } deps: [1] }
weft.segment @stage1.backward backward stage 1 (%x: tensor<4x4xf32> as <input>, %dy: tensor<4x4xf32> as <output_grad>,
    %g: tensor<8xf32> as <grad tensor 0>) -> (<input_grad>, <grad tensor 0>) {
  %dw2 = weft.matmul %x, %dy {name = "dw2", layer = 2 : i32, transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g2 = weft.group_reduce_scatter (%dw2) init (%g) over {z = array<i64>} members 2 scatter_gradients "ring" {name = "s2", detached} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %dw1 = weft.matmul %x, %dy {name = "dw1", layer = 1 : i32, transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = weft.group_reduce_scatter (%dw1) init (%g2) over {z = array<i64>} members 2 scatter_gradients "ring" {name = "s1", detached} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %dw0 = weft.matmul %x, %dy {name = "dw0", layer = 0 : i32, transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g0 = weft.group_reduce_scatter (%dw0) init (%g1) over {z = array<i64>} members 2 scatter_gradients "ring" {name = "s0", detached} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %dx = weft.gelu %dy {name = "dx", layer = 0 : i32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %dx, %g0 : tensor<4x4xf32>, tensor<8xf32>
}
