// RUN: weft-opt %s --weft-print-segments -split-input-file -verify-diagnostics -allow-unregistered-dialect

weft.segment @s backward stage 0 (%dy: tensor<4xf32> as <output_grad>) -> (<input_grad>) {
  // expected-error@+1 {{[export_segments_c1] the result 'input_grad' lies in the storage of 'output_grad'; copy it with weft.cast}}
  weft.return %dy : tensor<4xf32>
}

// -----

weft.segment @s forward stage 0 () -> () {
  // expected-error@+1 {{[export_segments_c2] is not a kernel; a segment holds kernels only}}
  "other.op"() : () -> ()
  weft.return
}

// -----

weft.segment @s scale_gradients stage 0 (%g: tensor<4xf32> as <grad tensor 0>, %n: tensor<2xf64> as <norm>)
    -> (<grad tensor 0>, <output>) {
  // expected-note@+1 {{it holds this value then}}
  %0 = weft.scale %n, %g : (tensor<2xf64>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{[export_segments_c3] reads 'grad tensor 0' after another value has taken its storage}}
  %1 = weft.gelu %g : (tensor<4xf32>) -> tensor<4xf32>
  weft.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

weft.segment @s backward stage 0 (%g: tensor<4xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
  // expected-error@+1 {{[export_segments_c4] would write over its operand 0, 'grad tensor 0'}}
  %0 = weft.gelu %g : (tensor<4xf32>) -> tensor<4xf32>
  weft.return %0 : tensor<4xf32>
}

// -----

weft.segment @s scale_gradients stage 0 (%g: tensor<4xf32> as <grad tensor 0>, %n: tensor<2xf64> as <norm>)
    -> (<grad tensor 0>) {
  %0 = weft.scale %n, %g : (tensor<2xf64>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{[export_segments_c5] the result 'grad tensor 0' is overwritten: a later step writes another value to its storage}}
  weft.return %g : tensor<4xf32>
}

// -----

// expected-error@+1 {{[export_segments_c6] no step uses its argument 'param tensor 2'}}
weft.segment @s forward stage 0 (%w: tensor<4xf32> as <param tensor 2>) -> () {
  weft.return
}

// -----

// expected-error@+1 {{[export_segments_c7] workspace: }}
weft.segment @s forward stage 0 () -> () {
  %0 = weft.fill {value = 0.0 : f64} : tensor<1099511627776x1048576xf32>
  %1 = weft.gelu %0 : (tensor<1099511627776x1048576xf32>) -> tensor<1099511627776x1048576xf32>
  weft.return
}

// -----

// expected-error@+1 {{[export_segments_c8] 'output' has more than 2^60 bytes}}
weft.segment @s forward stage 0 () -> (<output>) {
  %0 = weft.fill {value = 0.0 : f64} : tensor<1099511627776x1048576xf32>
  weft.return %0 : tensor<1099511627776x1048576xf32>
}

// -----

// expected-error@+1 {{[export_segments_c9] is of stage 1, but stage 0 has no segment}}
weft.segment @s forward stage 1 () -> () {
  weft.return
}

// -----

weft.segment @s forward stage 0 () -> () {
  weft.return
}
// expected-error@+1 {{[export_segments_c10] its stage or rank has another segment of this kind}}
weft.segment @t forward stage 0 () -> () {
  weft.return
}

// -----

weft.segment @s forward stage 0 () -> (<saved>) {
  %0 = weft.load_tokens : tensor<4xi32>
  weft.return %0 : tensor<4xi32>
}
// expected-error@+1 {{[export_segments_c11] reads 'saved 0' of type 'tensor<4xf32>', which its stage does not save}}
weft.segment @t backward stage 0 (%0: tensor<4xf32> as <saved>) -> (<input_grad>) {
  %1 = weft.gelu %0 : (tensor<4xf32>) -> tensor<4xf32>
  weft.return %1 : tensor<4xf32>
}

// -----

// expected-error@+1 {{[export_segments_c12] is of rank 2000000000; allowed: 0 to 1048575}}
weft.segment @s optimizer_step stage 0 rank 2000000000 () -> (<grad tensor 0>) {
  %0 = weft.fill {value = 0.0 : f64} : tensor<4xf32>
  weft.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{[export_segments_c13] is of kind forward_backward, which exists only after export}}
weft.segment @s forward_backward stage 0 () -> (<output>) {
  %0 = weft.fill {value = 0.0 : f64} : tensor<4xf32>
  weft.return %0 : tensor<4xf32>
}

// -----

weft.segment @s backward stage 0 (%dy: tensor<4xf32> as <output_grad>, %g: tensor<2xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
  // expected-error@+1 {{[export_segments_c14] is detached, but touches 'output_grad', which may end with the action; copy it with weft.cast}}
  %0 = weft.group_reduce_scatter (%dy) init (%g) over {z = array<i64>} members 2 scatter_gradients "ring" {detached} : (tensor<4xf32>, tensor<2xf32>) -> tensor<2xf32>
  weft.return %0 : tensor<2xf32>
}

// -----

// expected-error@+1 {{[export_segments_c15] has detached steps only; its action would have no end}}
weft.segment @s backward stage 0 (%w: tensor<4xf32> as <param tensor 0>, %g: tensor<2xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
  %0 = weft.group_reduce_scatter (%w) init (%g) over {z = array<i64>} members 2 scatter_gradients "ring" {detached} : (tensor<4xf32>, tensor<2xf32>) -> tensor<2xf32>
  weft.return %0 : tensor<2xf32>
}

// -----

weft.segment @s backward stage 0 (%x: tensor<4x4xf32> as <input>, %dy: tensor<4x4xf32> as <output_grad>, %g: tensor<6xf32> as <grad tensor 0>, %h: tensor<4xf32> as <grad tensor 1>) -> (<grad tensor 0>, <grad tensor 1>) {
  %dw = weft.matmul %x, %dy {name = "dw", transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = weft.group_reduce_scatter (%dw) init (%g) over {data = array<i64>} members 3 scatter_gradients "ring" {blocking} : (tensor<4x4xf32>, tensor<6xf32>) -> tensor<6xf32>
  // expected-error@+1 {{[export_segments_c16] needs room for 20 elements in 'dw', which has room for 18}}
  %1 = weft.group_reduce_scatter (%dw) init (%h) over {z = array<i64>} members 5 scatter_gradients "ring" {blocking} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
  weft.return %0, %1 : tensor<6xf32>, tensor<4xf32>
}

// -----

weft.segment @s backward_weight stage 0 (%dw: tensor<4x4xf32> as <saved_grad>, %g: tensor<6xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
  // expected-error@+1 {{[export_segments_c17] fills up 'saved_grad 0', which another segment makes; copy it with weft.cast}}
  %0 = weft.group_reduce_scatter (%dw) init (%g) over {data = array<i64>} members 3 scatter_gradients "ring" {blocking} : (tensor<4x4xf32>, tensor<6xf32>) -> tensor<6xf32>
  weft.return %0 : tensor<6xf32>
}
