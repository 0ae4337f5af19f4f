// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK: weft.tensor @wte.weight index 0 shape [7, 4] : tensor<8x4xf32> {uses = 2 : i32, weight_decay = 1.000000e-01 : f64}
weft.tensor @wte.weight index 0 shape [7, 4] : tensor<8x4xf32> {uses = 2 : i32, weight_decay = 0.1 : f64}

// CHECK: weft.graph @model {
// CHECK-NEXT: ^bb0(%[[LOSSES:.*]]: tensor<2xf64>):
weft.graph @model {
^bb0(%losses: tensor<2xf64>):
  // CHECK-NEXT: weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf32>
  %0 = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf32>
  // CHECK-NEXT: weft.parameter 0 use 1 : tensor<8x4xf32>
  %1 = weft.parameter 0 use 1 : tensor<8x4xf32>
  // CHECK-NEXT: weft.yield %[[LOSSES]] : tensor<2xf64>
  weft.yield %losses : tensor<2xf64>
}

// CHECK: weft.segment @empty forward stage 3 () -> () {
weft.segment @empty forward stage 3 () -> () {
  weft.return
}

// CHECK: weft.segment @roles backward stage 0 (%{{.*}}: tensor<4xf32> as <input>, %{{.*}}: tensor<4xf32> as <grad tensor 3 use 1>) -> (<input_grad>, <grad tensor 3 use 1>) attributes {note = "kept"} {
weft.segment @roles backward stage 0 (%x: tensor<4xf32> as <input>, %g: tensor<4xf32> as <grad tensor 3 use 1>)
    -> (<input_grad>, <grad tensor 3 use 1>) attributes {note = "kept"} {
  weft.return %x, %g : tensor<4xf32>, tensor<4xf32>
}
