// Each weight is gathered beside the op that reads the previous weight.
// RUN: weft-opt %s --weft-prefetch-all-gather | FileCheck %s
// RUN: weft-opt %s --weft-prefetch-all-gather="ahead=0" | FileCheck %s --check-prefix=NONE
// RUN: weft-opt %s --weft-prefetch-all-gather="ahead=1" | FileCheck %s --check-prefix=ONE
// RUN: weft-opt %s --weft-prefetch-all-gather="ahead=2" | FileCheck %s --check-prefix=TWO

// CHECK-LABEL: weft.segment @stage0.forward
// CHECK: weft.group_all_gather{{.*}} {name = "w1"}
// CHECK-NEXT: weft.gelu
// CHECK-NEXT: weft.group_all_gather{{.*}} {name = "w2"}
// CHECK-NEXT: weft.matmul {{.*}}name = "a"
// CHECK-NEXT: weft.group_all_gather{{.*}} {name = "w3"}
// CHECK-NEXT: weft.matmul {{.*}}name = "b"
// CHECK-NEXT: weft.matmul {{.*}}name = "c"
weft.segment @stage0.forward forward stage 0 (%x: tensor<4x4xf32> as <input>, %p1: tensor<8xf32> as <param tensor 0>,
    %p2: tensor<8xf32> as <param tensor 1>, %p3: tensor<8xf32> as <param tensor 2>) -> (<output>) {
  %n = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = weft.group_all_gather (%p1) over {z = array<i64>} members 2 gather_weights "ring" {name = "w1", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %n, %w1 {name = "a"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w2 = weft.group_all_gather (%p2) over {z = array<i64>} members 2 gather_weights "ring" {name = "w2", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %b = weft.matmul %a, %w2 {name = "b"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w3 = weft.group_all_gather (%p3) over {z = array<i64>} members 2 gather_weights "ring" {name = "w3", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %c = weft.matmul %b, %w3 {name = "c"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %c : tensor<4x4xf32>
}

// The first weight has no op to overlap with.
// CHECK-LABEL: weft.segment @stage1.forward
// CHECK-NEXT: weft.group_all_gather{{.*}} {blocking, name = "w"}
// CHECK-NEXT: weft.matmul
weft.segment @stage1.forward forward stage 1 (%x: tensor<4x4xf32> as <input>, %p: tensor<8xf32> as <param tensor 3>) -> (<output>) {
  %w = weft.group_all_gather (%p) over {z = array<i64>} members 2 gather_weights "ring" {name = "w", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %a : tensor<4x4xf32>
}

// Weights that are gathered over two axes; the weights of two products share one message over the first axis.
// CHECK-LABEL: weft.segment @stage2.forward
// CHECK-NEXT: weft.group_all_gather{{.*}} over {data = array<i64>}
// CHECK-NEXT: weft.group_all_gather{{.*}} {name = "w1"}
// CHECK-NEXT: weft.gelu
// CHECK-NEXT: weft.group_all_gather{{.*}} {name = "w2"}
// CHECK-NEXT: weft.matmul {{.*}}name = "a"
// CHECK-NEXT: weft.matmul {{.*}}name = "b"
weft.segment @stage2.forward forward stage 2 (%x: tensor<4x4xf32> as <input>, %p1: tensor<4xf32> as <param tensor 4>,
    %p2: tensor<4xf32> as <param tensor 5>) -> (<output>) {
  %n = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %z:2 = weft.group_all_gather (%p1, %p2) over {data = array<i64>} members 2 gather_weights "ring" {blocking} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %w1 = weft.group_all_gather (%z#0) over {z = array<i64>} members 2 gather_weights "ring" {name = "w1", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %n, %w1 {name = "a"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w2 = weft.group_all_gather (%z#1) over {z = array<i64>} members 2 gather_weights "ring" {name = "w2", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %b = weft.matmul %a, %w2 {name = "b"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %b : tensor<4x4xf32>
}

// Gathers from other replicas (ZeRO 3) are issued `ahead` layers early. Gathers over other axes keep their positions.
// NONE-LABEL: weft.segment @stage3.forward
// NONE-NEXT: weft.gelu
// NONE-NEXT: weft.group_all_gather{{.*}} {blocking, name = "w1"}
// NONE-NEXT: weft.matmul {{.*}}name = "a"
// NONE-NEXT: weft.group_all_gather{{.*}} {blocking, name = "w2"}
// NONE-NEXT: weft.matmul {{.*}}name = "b"
// NONE-NEXT: weft.group_all_gather{{.*}} {blocking, name = "w3"}
// NONE-NEXT: weft.group_all_gather{{.*}} {blocking, name = "z3"}
// NONE-NEXT: weft.matmul {{.*}}name = "c"
// ONE-LABEL: weft.segment @stage3.forward
// ONE-NEXT: weft.group_all_gather{{.*}} {name = "w1"}
// ONE-NEXT: weft.gelu
// ONE-NEXT: weft.group_all_gather{{.*}} {name = "w2"}
// ONE-NEXT: weft.matmul {{.*}}name = "a"
// ONE-NEXT: weft.group_all_gather{{.*}} {name = "w3"}
// ONE-NEXT: weft.group_all_gather{{.*}} {name = "z3"}
// ONE-NEXT: weft.matmul {{.*}}name = "b"
// ONE-NEXT: weft.matmul {{.*}}name = "c"
// TWO-LABEL: weft.segment @stage3.forward
// TWO-NEXT: weft.group_all_gather{{.*}} {name = "w1"}
// TWO-NEXT: weft.group_all_gather{{.*}} {name = "w2"}
// TWO-NEXT: weft.gelu
// TWO-NEXT: weft.group_all_gather{{.*}} {name = "w3"}
// TWO-NEXT: weft.matmul {{.*}}name = "a"
// TWO-NEXT: weft.group_all_gather{{.*}} {name = "z3"}
// TWO-NEXT: weft.matmul {{.*}}name = "b"
// TWO-NEXT: weft.matmul {{.*}}name = "c"
weft.segment @stage3.forward forward stage 3 (%x: tensor<4x4xf32> as <input>, %p1: tensor<8xf32> as <param tensor 6>,
    %p2: tensor<8xf32> as <param tensor 7>, %p3: tensor<4xf32> as <param tensor 8>) -> (<output>) {
  %n = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = weft.group_all_gather (%p1) over {data = array<i64>} members 2 gather_weights "ring" {name = "w1", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %n, %w1 {name = "a"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w2 = weft.group_all_gather (%p2) over {data = array<i64>} members 2 gather_weights "ring" {name = "w2", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %b = weft.matmul %a, %w2 {name = "b"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = weft.group_all_gather (%p3) over {data = array<i64>} members 2 gather_weights "ring" {name = "w3", blocking} : (tensor<4xf32>) -> tensor<8xf32>
  %w3 = weft.group_all_gather (%z) over {z = array<i64>} members 2 gather_weights "ring" {name = "z3", blocking} : (tensor<8xf32>) -> tensor<4x4xf32>
  %c = weft.matmul %b, %w3 {name = "c"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %c : tensor<4x4xf32>
}
