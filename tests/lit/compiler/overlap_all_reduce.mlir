// The sum of an input's gradient runs beside the product for the weight's gradient.
// RUN: weft-opt %s --weft-overlap-all-reduce | FileCheck %s

// CHECK-LABEL: weft.segment @stage0.backward
// CHECK: %[[DX:.*]] = weft.matmul {{.*}}name = "dx"
// CHECK-NEXT: %[[SUM:.*]] = weft.group_all_reduce(%[[DX]]) over {x = array<i64>} members 2 tensor "ring" {name = "sum"}
// CHECK-NEXT: weft.matmul {{.*}}name = "dw"
// CHECK-NEXT: weft.gelu_backward %[[SUM]]
// No op is between this sum and its operand, so nothing runs beside it.
// CHECK-NEXT: weft.group_all_reduce{{.*}} {blocking, name = "last"}
weft.segment @stage0.backward backward stage 0 (%dy: tensor<4x4xf32> as <output_grad>, %x: tensor<4x4xf32> as <saved>,
    %w: tensor<4x4xf32> as <param tensor 0>, %g: tensor<4x4xf32> as <grad tensor 0>) -> (<input_grad>, <grad tensor 0>) {
  %dx = weft.matmul %dy, %w {name = "dx", transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw = weft.matmul %x, %dy init %g {name = "dw", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = weft.group_all_reduce (%dx) over {x = array<i64>} members 2 tensor "ring" {name = "sum", blocking} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %dz = weft.gelu_backward %sum, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %last = weft.group_all_reduce (%dz) over {x = array<i64>} members 2 tensor "ring" {name = "last", blocking} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %last, %dw : tensor<4x4xf32>, tensor<4x4xf32>
}

// Rows for the weight's product are gathered beside the input's product.
// CHECK-LABEL: weft.segment @stage1.backward
// CHECK-NEXT: %[[ROWS:.*]] = weft.group_all_gather{{.*}} {name = "rows"}
// CHECK-NEXT: %[[DX:.*]] = weft.matmul {{.*}}name = "dx"
// CHECK-NEXT: weft.group_reduce_scatter(%[[DX]]) {{.*}} {name = "scatter"}
// CHECK-NEXT: weft.matmul %[[ROWS]], {{.*}}name = "dw"
weft.segment @stage1.backward backward stage 1 (%dy: tensor<4x4xf32> as <output_grad>, %x: tensor<2x4xf32> as <saved>,
    %w: tensor<4x4xf32> as <param tensor 0>, %g: tensor<4x4xf32> as <grad tensor 0>) -> (<input_grad>, <grad tensor 0>) {
  %dx = weft.matmul %dy, %w {name = "dx", transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %rows = weft.group_all_gather (%x) over {x = array<i64>} members 2 tensor "ring" {name = "rows", blocking} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %dw = weft.matmul %rows, %dy init %g {name = "dw", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = weft.group_reduce_scatter (%dx) over {x = array<i64>} members 2 tensor "ring" {name = "scatter", blocking} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  weft.return %sum, %dw : tensor<2x4xf32>, tensor<4x4xf32>
}

// A weight half gathers rows while the product before their reader runs. The first gather has nothing to run beside.
// CHECK-LABEL: weft.segment @stage1.backward_weight
// CHECK-NEXT: %[[A:.*]] = weft.group_all_gather{{.*}} {blocking, name = "rows a"}
// CHECK-NEXT: %[[B:.*]] = weft.group_all_gather{{.*}} {name = "rows b"}
// CHECK-NEXT: weft.matmul %[[A]], {{.*}}name = "dw a"
// CHECK-NEXT: %[[C:.*]] = weft.group_all_gather{{.*}} {name = "rows c"}
// CHECK-NEXT: weft.matmul %[[B]], {{.*}}name = "dw b"
// CHECK-NEXT: weft.matmul %[[C]], {{.*}}name = "dw c"
weft.segment @stage1.backward_weight backward_weight stage 1 (%a: tensor<2x4xf32> as <saved>,
    %b: tensor<2x4xf32> as <saved use 1>, %g0: tensor<4x4xf32> as <grad tensor 0>, %g1: tensor<4x4xf32> as <grad tensor 1>,
    %g2: tensor<4x4xf32> as <grad tensor 2>, %c: tensor<2x4xf32> as <saved_grad>, %d: tensor<4x4xf32> as <saved_grad use 1>)
    -> (<grad tensor 0>, <grad tensor 1>, <grad tensor 2>) {
  %ra = weft.group_all_gather (%a) over {x = array<i64>} members 2 tensor "ring" {name = "rows a", blocking} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %0 = weft.matmul %ra, %d init %g0 {name = "dw a", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %rb = weft.group_all_gather (%b) over {x = array<i64>} members 2 tensor "ring" {name = "rows b", blocking} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %1 = weft.matmul %rb, %d init %g1 {name = "dw b", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %rc = weft.group_all_gather (%c) over {x = array<i64>} members 2 tensor "ring" {name = "rows c", blocking} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %2 = weft.matmul %rc, %d init %g2 {name = "dw c", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// A forward does not change.
// CHECK-LABEL: weft.segment @stage0.forward
// CHECK: weft.gelu
// CHECK: weft.gelu
// CHECK: weft.group_all_reduce{{.*}} {blocking}
weft.segment @stage0.forward forward stage 0 (%x: tensor<4x4xf32> as <input>) -> (<output>, <saved>) {
  %a = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = weft.group_all_reduce (%a) over {x = array<i64>} members 2 tensor "ring" {blocking} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %s, %b : tensor<4x4xf32>, tensor<4x4xf32>
}
