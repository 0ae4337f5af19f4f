// Saved values that only the input half of a backward reads: some give their place to what it makes, others end with it.
// RUN: weft-opt %s --weft-reuse-saved | FileCheck %s --check-prefix=PASS
// RUN: weft-opt %s --weft-reuse-saved --weft-print-segments | FileCheck %s --check-prefix=PRINT

// The forward saves a, b, c and d. The weight half reads a. The input half reads b first, then c and d. Of the two
// values that it makes, the first is made before any place is free, and the second takes b's.
// PASS-LABEL: weft.segment @f forward
// PASS-SAME: attributes {weft.saved_for_input = array<i32: 2, 3>}
// PASS-LABEL: weft.segment @i backward_input
// PASS-SAME: -> (<input_grad>, <saved_grad>, <saved use 1>)
// PASS-LABEL: weft.segment @w backward_weight
// PASS-SAME: (%{{.*}}: tensor<4x4xf32> as <saved>, %{{.*}}: tensor<4x4xf32> as <grad tensor 0>, %{{.*}}: tensor<4x4xf32> as <saved_grad>, %{{.*}}: tensor<4x4xf32> as <saved use 1>)

// `saved` has 64 bytes for a and 64 for b; c and d lie in the other operand.
// PRINT: name: "f" operands
// PRINT-SAME: { name: "saved" bytes: 128 access: WRITE } operands { name: "saved_for_input" bytes: 128 access: WRITE }
// PRINT: name: "i" operands
// PRINT-SAME: { name: "saved" bytes: 128 access: READ_WRITE } operands { name: "saved_for_input" bytes: 128 access: READ } operands { name: "saved_grad" bytes: 64 access: WRITE }
// PRINT: name: "w" operands { name: "saved" bytes: 128 access: READ }
weft.segment @f forward stage 0 (%x: tensor<4x4xf32> as <input>) -> (<output>, <saved>, <saved use 1>, <saved use 2>, <saved use 3>) {
  %a = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = weft.gelu %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = weft.gelu %b : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = weft.gelu %c : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = weft.gelu %d : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %y, %a, %b, %c, %d : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
weft.segment @i backward_input stage 0 (%dy: tensor<4x4xf32> as <output_grad>, %b: tensor<4x4xf32> as <saved use 1>, %c: tensor<4x4xf32> as <saved use 2>, %d: tensor<4x4xf32> as <saved use 3>) -> (<input_grad>, <saved_grad>, <saved_grad use 1>) {
  %0 = weft.gelu_backward %dy, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = weft.gelu_backward %0, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = weft.gelu_backward %1, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %2, %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
weft.segment @w backward_weight stage 0 (%a: tensor<4x4xf32> as <saved>, %g: tensor<4x4xf32> as <grad tensor 0>, %p: tensor<4x4xf32> as <saved_grad>, %q: tensor<4x4xf32> as <saved_grad use 1>) -> (<grad tensor 0>) {
  %0 = weft.add %p, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = weft.matmul %a, %0 init %g {transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %1 : tensor<4x4xf32>
}

// A product that is added to %0 lies where %0 lies, so the gradient's place is written from the first op on. Saved value 1 is
// read after that op, so the gradient cannot take its place.
// PASS-LABEL: weft.segment @f1 forward
// PASS-SAME: attributes {weft.saved_for_input = array<i32: 1>}
weft.segment @f1 forward stage 1 (%x: tensor<4x4xf32> as <input>) -> (<saved>, <saved use 1>) {
  %a = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = weft.gelu %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %a, %b : tensor<4x4xf32>, tensor<4x4xf32>
}
// PASS-LABEL: weft.segment @i1 backward_input
// PASS-SAME: -> (<saved_grad>)
weft.segment @i1 backward_input stage 1 (%dy: tensor<4x4xf32> as <output_grad>, %b: tensor<4x4xf32> as <saved use 1>) -> (<saved_grad>) {
  %0 = weft.gelu %dy : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = weft.matmul %dy, %b init %0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %1 : tensor<4x4xf32>
}
weft.segment @w1 backward_weight stage 1 (%a: tensor<4x4xf32> as <saved>, %g: tensor<4x4xf32> as <grad tensor 0>, %p: tensor<4x4xf32> as <saved_grad>) -> (<grad tensor 0>) {
  %1 = weft.matmul %a, %p init %g {transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %1 : tensor<4x4xf32>
}

// Without a weight half nothing changes.
// PASS-LABEL: weft.segment @f2 forward
// PASS-NOT: saved_for_input
weft.segment @f2 forward stage 2 (%x: tensor<4x4xf32> as <input>) -> (<saved>) {
  %a = weft.gelu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %a : tensor<4x4xf32>
}
weft.segment @i2 backward stage 2 (%dy: tensor<4x4xf32> as <output_grad>, %a: tensor<4x4xf32> as <saved>) -> (<input_grad>) {
  %0 = weft.gelu_backward %dy, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  weft.return %0 : tensor<4x4xf32>
}
