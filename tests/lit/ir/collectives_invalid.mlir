// RUN: weft-opt %s -split-input-file -verify-diagnostics

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c1] needs inputs and as many results, got 1 and 2}}
  %y:2 = weft.group_all_reduce (%x) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c2] a group must have at least 2 members, got 1}}
  %y = weft.group_all_reduce (%x) over {x = array<i64>} members 1 tensor "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c2] over must name an axis}}
  %y = weft.group_all_reduce (%x) over {} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c2] over must name axis "x" with ascending coordinates (array<i64: 0, 2>; empty = all), {block = n : i64} or {stride = n : i64} with n > 0, got array<i64: 1, 1>}}
  %y = weft.group_all_reduce (%x) over {x = array<i64: 1, 1>} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c2] over must name axis "x" with ascending coordinates (array<i64: 0, 2>; empty = all), {block = n : i64} or {stride = n : i64} with n > 0, got {block = 0 : i64}}}
  %y = weft.group_all_reduce (%x) over {x = {block = 0 : i64}} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c2] 4 members are not a multiple of the 3 coordinates on axis "x"}}
  %y = weft.group_all_reduce (%x) over {x = {block = 3 : i64}} members 4 tensor "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c3] purpose must be tensor, got gradient_sync}}
  %y = weft.group_all_reduce (%x) over {x = array<i64>} members 2 gradient_sync "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_reduce_c4] result (like its input) must be of type 'tensor<4x8xf32>', got 'tensor<8x4xf32>'}}
  %y = weft.group_all_reduce (%x) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<8x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_gather_c1] needs inputs and as many results, got 1 and 0}}
  weft.group_all_gather (%x) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>) -> ()
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_gather_c2] a group must have at least 2 members, got 0}}
  %y = weft.group_all_gather (%x) over {x = array<i64>} members 0 tensor "ring" : (tensor<4x8xf32>) -> tensor<8x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_gather_c3] purpose must be tensor or gather_weights, got scatter_gradients}}
  %y = weft.group_all_gather (%x) over {x = array<i64>} members 2 scatter_gradients "ring" : (tensor<4x8xf32>) -> tensor<8x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_gather_c4] result 0 must hold 'f32' like its input, got 'bf16'}}
  %y = weft.group_all_gather (%x) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<8x8xbf16>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_all_gather_c5] result 0 must have 2 x 32 = 64 elements, got 72}}
  %y = weft.group_all_gather (%x) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<9x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_reduce_scatter_c1] needs inputs and as many results, got 1 and 2}}
  %y:2 = weft.group_reduce_scatter (%x) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_reduce_scatter_c2] over must name an axis}}
  %y = weft.group_reduce_scatter (%x) over {} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<2x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_reduce_scatter_c3] purpose must be tensor or scatter_gradients, got gather_weights}}
  %y = weft.group_reduce_scatter (%x) over {x = array<i64>} members 2 gather_weights "ring" : (tensor<4x8xf32>) -> tensor<2x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_reduce_scatter_c4] input 0 must have 2 x 24 = 48 elements, got 32}}
  %y = weft.group_reduce_scatter (%x) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>) -> tensor<3x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<4x!weft.exact192> as <saved use 0>) -> () {
  // expected-error@+1 {{[group_reduce_scatter_c5] result 0 must hold '!weft.exact192' like its input, got 'f32'}}
  %y = weft.group_reduce_scatter (%a) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x!weft.exact192>) -> tensor<2xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>, %i: tensor<2x8xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[group_reduce_scatter_c6] must take an init for each result, of the type of that result, or none}}
  %y = weft.group_reduce_scatter (%x) init (%i) over {x = array<i64>} members 2 tensor "ring" : (tensor<4x8xf32>, tensor<2x8xf64>) -> tensor<2x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[fan_out_c1] a group must have at least 2 members, got 1}}
  %y = weft.fan_out %x over {x = array<i64>} members 1 tensor "ring" : tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[fan_out_c2] purpose must be tensor, got gather_weights}}
  %y = weft.fan_out %x over {x = array<i64>} members 2 gather_weights "ring" : tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[cut_gradients_c1] needs inputs and as many results, got 0 and 0}}
  weft.cut_gradients () over {data = array<i64>} members 2 "ring" : () -> ()
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[cut_gradients_c2] a group must have at least 2 members, got 1}}
  %y = weft.cut_gradients (%x) over {data = array<i64>} members 1 "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4x8xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[cut_gradients_c3] result (like its input) must be of type}}
  %y = weft.cut_gradients (%x) over {data = array<i64>} members 2 "ring" : (tensor<4x8xf32>) -> tensor<32xf32>
  weft.return
}
