// Reduce-scatters of weight gradients run beyond the end of the backward if nothing in it reads their results.
// RUN: weft-opt %s --weft-defer-reduce-scatter | FileCheck %s

// CHECK-LABEL: weft.segment @stage0.backward
// CHECK: weft.group_reduce_scatter{{.*}} {detached, name = "plain"}
// An input's lifetime may end with the action, and the last gradient is read again.
// CHECK: weft.group_reduce_scatter{{.*}} {blocking, name = "of what came in"}
// CHECK: weft.group_reduce_scatter{{.*}} {blocking, name = "read"}
// CHECK: weft.group_reduce_scatter{{.*}} {blocking, name = "of activations"}
weft.segment @stage0.backward backward stage 0 (%x: tensor<4x4xf32> as <input>, %dy: tensor<4x4xf32> as <output_grad>,
    %g0: tensor<8xf32> as <grad tensor 0>, %g1: tensor<8xf32> as <grad tensor 1>, %g2: tensor<8xf32> as <grad tensor 2>, %n: tensor<2xf64> as <norm>)
    -> (<input_grad>, <grad tensor 0>, <grad tensor 1>, <grad tensor 2>) {
  %dw = weft.matmul %x, %dy {transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s0 = weft.group_reduce_scatter (%dw) init (%g0) over {z = array<i64>} members 2 scatter_gradients "ring" {name = "plain", blocking} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s1 = weft.group_reduce_scatter (%dy) init (%g1) over {z = array<i64>} members 2 scatter_gradients "ring" {name = "of what came in", blocking} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s2 = weft.group_reduce_scatter (%dw) init (%g2) over {z = array<i64>} members 2 scatter_gradients "ring" {name = "read", blocking} : (tensor<4x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s3 = weft.scale %n, %s2 : (tensor<2xf64>, tensor<8xf32>) -> tensor<8xf32>
  %r = weft.group_reduce_scatter (%dw) over {x = array<i64>} members 2 tensor "ring" {name = "of activations", blocking} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  weft.return %r, %s0, %s1, %s3 : tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Two reduce-scatters over two axes, one after the other.
// CHECK-LABEL: weft.segment @stage1.backward
// CHECK: weft.group_reduce_scatter{{.*}} over {z = array<i64>} {{.*}} {detached}
// CHECK: weft.group_reduce_scatter{{.*}} over {data = array<i64>} {{.*}} {detached}
weft.segment @stage1.backward backward stage 1 (%x: tensor<4x4xf32> as <input>, %dy: tensor<4x4xf32> as <output_grad>,
    %g: tensor<4xf32> as <grad tensor 3>) -> (<grad tensor 3>) {
  %dw = weft.matmul %x, %dy {transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s0 = weft.group_reduce_scatter (%dw) over {z = array<i64>} members 2 scatter_gradients "ring" {blocking} : (tensor<4x4xf32>) -> tensor<8xf32>
  %s1 = weft.group_reduce_scatter (%s0) init (%g) over {data = array<i64>} members 2 scatter_gradients "ring" {blocking} : (tensor<8xf32>, tensor<4xf32>) -> tensor<4xf32>
  weft.return %s1 : tensor<4xf32>
}
