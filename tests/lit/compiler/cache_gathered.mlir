// Keeps the gathered weights that save the most time. 128 bytes hold two of the three weights with one microbatch in
// flight, and one with two in flight.
// RUN: weft-opt %s --weft-cache-gathered="bytes=128" | FileCheck %s
// RUN: weft-opt %s --weft-cache-gathered="bytes=128 in-flight=2" | FileCheck %s --check-prefix=TWO
// RUN: weft-opt %s --weft-cache-gathered="bytes=100000 replicas" | FileCheck %s --check-prefix=REPLICAS
// RUN: weft-opt %s --weft-cache-gathered | FileCheck %s --check-prefix=NONE

// CHECK-LABEL: weft.segment @stage0.forward
// CHECK-SAME: -> (<output>, <saved>, <saved use 1>)
// CHECK: %[[W1:.*]] = weft.group_all_gather({{.*}}name = "w1"
// CHECK: weft.group_all_gather({{.*}}name = "w2"
// CHECK: %[[W3:.*]] = weft.group_all_gather({{.*}}name = "w3"
// CHECK: weft.return %{{.*}}, %[[W1]], %[[W3]] :
// TWO-LABEL: weft.segment @stage0.forward
// TWO-SAME: -> (<output>, <saved>)
// NONE-LABEL: weft.segment @stage0.forward
// NONE-SAME: -> (<output>)
// NONE-NOT: cost
weft.segment @stage0.forward forward stage 0 (%x: tensor<4x4xf32> as <input>, %p1: tensor<8xf32> as <param tensor 0>,
    %p2: tensor<8xf32> as <param tensor 1>, %p3: tensor<8xf32> as <param tensor 2>) -> (<output>) {
  %w1 = weft.group_all_gather (%p1) over {z = array<i64>} members 2 gather_weights "ring" {cost = 30 : i64, name = "w1"} : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %x, %w1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w2 = weft.group_all_gather (%p2) over {z = array<i64>} members 2 gather_weights "ring" {cost = 10 : i64, name = "w2"} : (tensor<8xf32>) -> tensor<4x4xf32>
  %b = weft.matmul %a, %w2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w3 = weft.group_all_gather (%p3) over {z = array<i64>} members 2 gather_weights "ring" {cost = 20 : i64, name = "w3"} : (tensor<8xf32>) -> tensor<4x4xf32>
  %c = weft.matmul %b, %w3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %c : tensor<4x4xf32>
}

// CHECK-LABEL: weft.segment @stage0.backward
// CHECK-SAME: (%{{.*}}: tensor<4x4xf32> as <output_grad>, %{{.*}}: tensor<8xf32> as <param tensor 1>, %[[W1:.*]]: tensor<4x4xf32> as <saved>, %[[W3:.*]]: tensor<4x4xf32> as <saved use 1>)
// CHECK-NEXT: weft.matmul %{{.*}}, %[[W3]]
// CHECK-NEXT: %[[W2:.*]] = weft.group_all_gather({{.*}}name = "w2"
// CHECK-NEXT: weft.matmul %{{.*}}, %[[W2]]
// CHECK-NEXT: weft.matmul %{{.*}}, %[[W1]]
// The first weight saves the most.
// TWO-LABEL: weft.segment @stage0.backward
// TWO: weft.group_all_gather({{.*}}name = "w3"
// TWO: weft.group_all_gather({{.*}}name = "w2"
// TWO-NOT: weft.group_all_gather
weft.segment @stage0.backward backward stage 0 (%dy: tensor<4x4xf32> as <output_grad>, %p1: tensor<8xf32> as <param tensor 0>,
    %p2: tensor<8xf32> as <param tensor 1>, %p3: tensor<8xf32> as <param tensor 2>) -> (<input_grad>) {
  %w3 = weft.group_all_gather (%p3) over {z = array<i64>} members 2 gather_weights "ring" {name = "w3"} : (tensor<8xf32>) -> tensor<4x4xf32>
  %c = weft.matmul %dy, %w3 {transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w2 = weft.group_all_gather (%p2) over {z = array<i64>} members 2 gather_weights "ring" {name = "w2"} : (tensor<8xf32>) -> tensor<4x4xf32>
  %b = weft.matmul %c, %w2 {transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = weft.group_all_gather (%p1) over {z = array<i64>} members 2 gather_weights "ring" {name = "w1"} : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %b, %w1 {transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %a : tensor<4x4xf32>
}

// With `replicas`, what the replicas send is kept, and is gathered over z again.
// REPLICAS-LABEL: weft.segment @stage0.forward
// REPLICAS-SAME: -> (<output>)
// REPLICAS-LABEL: weft.segment @stage1.backward
// REPLICAS-SAME: (%{{.*}}: tensor<4x4xf32> as <output_grad>, %[[Z:.*]]: tensor<8xf32> as <saved>)
// REPLICAS-NEXT: weft.group_all_gather(%[[Z]]) over {z = array<i64>}
// Over two axes: the whole weight is kept, and no part of it is gathered again.
// TWO-LABEL: weft.segment @stage1.forward
// CHECK-LABEL: weft.segment @stage1.forward
// CHECK-SAME: -> (<output>, <saved>)
// CHECK-LABEL: weft.segment @stage1.backward
// CHECK-SAME: (%{{.*}}: tensor<4x4xf32> as <output_grad>, %[[W:.*]]: tensor<4x4xf32> as <saved>)
// CHECK-NEXT: weft.matmul %{{.*}}, %[[W]]
weft.segment @stage1.forward forward stage 1 (%x: tensor<4x4xf32> as <input>, %p: tensor<4xf32> as <param tensor 3>) -> (<output>) {
  %z = weft.group_all_gather (%p) over {data = array<i64>} members 2 gather_weights "ring" : (tensor<4xf32>) -> tensor<8xf32>
  %w = weft.group_all_gather (%z) over {z = array<i64>} members 2 gather_weights "ring" : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %a : tensor<4x4xf32>
}
weft.segment @stage1.backward backward stage 1 (%dy: tensor<4x4xf32> as <output_grad>, %p: tensor<4xf32> as <param tensor 3>) -> (<input_grad>) {
  %z = weft.group_all_gather (%p) over {data = array<i64>} members 2 gather_weights "ring" : (tensor<4xf32>) -> tensor<8xf32>
  %w = weft.group_all_gather (%z) over {z = array<i64>} members 2 gather_weights "ring" : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %dy, %w {transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %a : tensor<4x4xf32>
}

// One message brings several parameters over data. Kept weights are removed from it; the others are still gathered.
// TWO-LABEL: weft.segment @stage2.forward
// CHECK-LABEL: weft.segment @stage2.forward
// CHECK-SAME: -> (<output>, <saved>)
// CHECK-LABEL: weft.segment @stage2.backward
// CHECK-SAME: (%{{.*}}: tensor<4x4xf32> as <output_grad>, %[[GAMMA:.*]]: tensor<2xf32> as <param tensor 5>, %[[W:.*]]: tensor<4x4xf32> as <saved>)
// CHECK-NEXT: weft.group_all_gather(%[[GAMMA]]) over {data = array<i64>} members 2
// CHECK-NEXT: weft.matmul %{{.*}}, %[[W]]
weft.segment @stage2.forward forward stage 2 (%x: tensor<4x4xf32> as <input>, %p: tensor<4xf32> as <param tensor 4>,
    %q: tensor<2xf32> as <param tensor 5>) -> (<output>) {
  %z, %gamma = weft.group_all_gather (%p, %q) over {data = array<i64>} members 2 gather_weights "ring" : (tensor<4xf32>, tensor<2xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %n, %r = weft.rms_norm %x, %gamma {epsilon = 1.0e-5 : f64} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  %w = weft.group_all_gather (%z) over {z = array<i64>} members 2 gather_weights "ring" : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %n, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %a : tensor<4x4xf32>
}
weft.segment @stage2.backward backward stage 2 (%dy: tensor<4x4xf32> as <output_grad>, %p: tensor<4xf32> as <param tensor 4>,
    %q: tensor<2xf32> as <param tensor 5>) -> (<input_grad>) {
  %z, %gamma = weft.group_all_gather (%p, %q) over {data = array<i64>} members 2 gather_weights "ring" : (tensor<4xf32>, tensor<2xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %w = weft.group_all_gather (%z) over {z = array<i64>} members 2 gather_weights "ring" : (tensor<8xf32>) -> tensor<4x4xf32>
  %a = weft.matmul %dy, %w {transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b, %r = weft.rms_norm %a, %gamma {epsilon = 1.0e-5 : f64} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  weft.return %b : tensor<4x4xf32>
}
