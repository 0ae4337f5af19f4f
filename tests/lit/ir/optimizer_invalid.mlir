// RUN: weft-opt %s -split-input-file -verify-diagnostics
// Operands are segment arguments, whose roles do not matter here.

// -----

weft.segment @s forward stage 0 () -> () {
  // expected-error@+1 {{[fill_c1] cannot fill elements of type 'index'}}
  %0 = weft.fill {value = 0.0 : f64} : tensor<4xindex>
  weft.return
}

// -----

weft.segment @s forward stage 0 () -> () {
  // expected-error@+1 {{[fill_c2] an exact192 accumulator can be filled with 0 only}}
  %0 = weft.fill {value = 1.0 : f64} : tensor<4x!weft.exact192>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<5xf32> as <saved use 0>, %a: tensor<4x!weft.exact192> as <saved use 1>) -> () {
  // expected-error@+1 {{[exact_accumulate_c1] x (like the accumulator) must be 4, got 5}}
  %0 = weft.exact_accumulate %x, %a : (tensor<5xf32>, tensor<4x!weft.exact192>) -> tensor<4x!weft.exact192>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4xf32> as <saved use 0>, %a: tensor<4x!weft.exact192> as <saved use 1>) -> () {
  // expected-error@+1 {{[exact_accumulate_c2] result (like the accumulator) must be of type 'tensor<4x!weft.exact192>', got 'tensor<5x!weft.exact192>'}}
  %0 = weft.exact_accumulate %x, %a : (tensor<4xf32>, tensor<4x!weft.exact192>) -> tensor<5x!weft.exact192>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%a: tensor<4x!weft.exact192> as <saved use 0>) -> () {
  // expected-error@+1 {{[exact_round_c1] result (like the accumulator) must be 4, got 5}}
  %0 = weft.exact_round %a : (tensor<4x!weft.exact192>) -> tensor<5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4xf32> as <saved use 0>, %n: tensor<3xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[squared_norm_c1] result (like norms) must be of type 'tensor<3xf64>', got 'tensor<4xf64>'}}
  %0 = weft.squared_norm %x, %n {slot = 0 : i64} : (tensor<4xf32>, tensor<3xf64>) -> tensor<4xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<4xf32> as <saved use 0>, %n: tensor<3xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[squared_norm_c2] slot must be between 0 and 2, got 3}}
  %0 = weft.squared_norm %x, %n {slot = 3 : i64} : (tensor<4xf32>, tensor<3xf64>) -> tensor<3xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<3xf64> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_total_c1] result (norm and factor) must be 2, got 3}}
  %0 = weft.norm_total %n {clip_norm = 1.0 : f64} : (tensor<3xf64>) -> tensor<3xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<3xf64> as <saved use 0>) -> () {
  // expected-error@+1 {{[norm_total_c2] clip_norm must not be negative, got -1.000000}}
  %0 = weft.norm_total %n {clip_norm = -1.0 : f64} : (tensor<3xf64>) -> tensor<2xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<3xf64> as <saved use 0>, %x: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[scale_c1] norm (norm and factor) must be 2, got 3}}
  %0 = weft.scale %n, %x : (tensor<3xf64>, tensor<4xf32>) -> tensor<4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<2xf64> as <saved use 0>, %x: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[scale_c2] result (like x) must be 4, got 5}}
  %0 = weft.scale %n, %x : (tensor<2xf64>, tensor<4xf32>) -> tensor<5xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%g: tensor<5xf32> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[adamw_c1] grad (like weight) must be 4, got 5}}
  %0:3 = weft.adamw %g, %w, %w, %w {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64} : (tensor<5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%g: tensor<4xf32> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[adamw_c2] param (like weight) must be 4, got 5}}
  %0:4 = weft.adamw %g, %w, %w, %w {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<5xbf16>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%g: tensor<4xf32> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[adamw_c3] new moment1 (like moment1) must be of type 'tensor<4xf32>', got 'tensor<4xf64>'}}
  %0:3 = weft.adamw %g, %w, %w, %w {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf64>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%g: tensor<5xf32> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[sgd_step_c1] grad (like weight) must be 4, got 5}}
  %0 = weft.sgd_step %g, %w {momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 0>, weight_decay = 0.0 : f64} : (tensor<5xf32>, tensor<4xf32>) -> (tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%g: tensor<4xf32> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[sgd_step_c2] param (like weight) must be 4, got 5}}
  %0:2 = weft.sgd_step %g, %w {momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 1>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<5xbf16>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%g: tensor<4xf32> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[sgd_step_c3] new weight (like weight) must be of type 'tensor<4xf32>', got 'tensor<4xf64>'}}
  %0 = weft.sgd_step %g, %w {momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 0>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf64>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%g: tensor<4xf32> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[sgd_step_c4] must take and return a momentum buffer if, and only if, momentum is not 0}}
  %0 = weft.sgd_step %g, %w {momentum = 0.9 : f64, resultSegmentSizes = array<i32: 1, 0, 0>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<3xf64> as <saved use 0>, %s: tensor<2xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[norm_total_c3] scale (rule P11) must be 3, got 2}}
  %0 = weft.norm_total %n, %s {clip_norm = 1.0 : f64} : (tensor<3xf64>, tensor<2xf64>) -> tensor<2xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<3xf64> as <saved use 0>, %s: tensor<3xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[norm_total_c4] loss_scale must not be negative, and 0 with the operand scale, got 8.000000}}
  %0 = weft.norm_total %n, %s {clip_norm = 1.0 : f64, loss_scale = 8.0 : f64} : (tensor<3xf64>, tensor<3xf64>) -> tensor<2xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<3xf64> as <saved use 0>, %s: tensor<3xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[update_loss_scale_c1] norm (norm and factor) must be 2, got 3}}
  %0 = weft.update_loss_scale %n, %s {growth_interval = 2 : i32, loss_scale = 8.0 : f64} : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<2xf64> as <saved use 0>, %s: tensor<4xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[update_loss_scale_c2] scale (rule P11) must be 3, got 4}}
  %0 = weft.update_loss_scale %n, %s {growth_interval = 2 : i32, loss_scale = 8.0 : f64} : (tensor<2xf64>, tensor<4xf64>) -> tensor<4xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<2xf64> as <saved use 0>, %s: tensor<3xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[update_loss_scale_c3] result (like scale) must be of type 'tensor<3xf64>', got 'tensor<4xf64>'}}
  %0 = weft.update_loss_scale %n, %s {growth_interval = 2 : i32, loss_scale = 8.0 : f64} : (tensor<2xf64>, tensor<3xf64>) -> tensor<4xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<2xf64> as <saved use 0>, %s: tensor<3xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[update_loss_scale_c4] loss_scale must be positive, got 0.000000}}
  %0 = weft.update_loss_scale %n, %s {growth_interval = 2 : i32, loss_scale = 0.0 : f64} : (tensor<2xf64>, tensor<3xf64>) -> tensor<3xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<2xf64> as <saved use 0>, %s: tensor<3xf64> as <saved use 1>) -> () {
  // expected-error@+1 {{[update_loss_scale_c5] growth_interval must be at least 1, got 0}}
  %0 = weft.update_loss_scale %n, %s {growth_interval = 0 : i32, loss_scale = 8.0 : f64} : (tensor<2xf64>, tensor<3xf64>) -> tensor<3xf64>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<3xf64> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[adamw_c4] norm (norm and factor) must be 2, got 3}}
  %0:3 = weft.adamw %w, %w, %w, %w, %n {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xf64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%n: tensor<2xf64> as <saved use 0>, %w: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[sgd_step_c5] scale (rule P11) must be 3, got 2}}
  %0 = weft.sgd_step %w, %w scaled by %n, %n {momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 0>, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<2xf64>, tensor<2xf64>) -> (tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%w: tensor<4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[adamw_c5] rounding_site must be 0, or positive with a weight of f32 and a param of bf16 or f16; got 1}}
  %0:4 = weft.adamw %w, %w, %w, %w {beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64, rounding_site = 1 : i32, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%w: tensor<4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[sgd_step_c6] rounding_site must be 0, or positive with a weight of f32 and a param of bf16 or f16; got -1}}
  %0:2 = weft.sgd_step %w, %w {momentum = 0.0 : f64, resultSegmentSizes = array<i32: 1, 0, 1>, rounding_site = -1 : i32, weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xbf16>)
  weft.return
}
