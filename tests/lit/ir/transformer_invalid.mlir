// RUN: weft-opt %s -split-input-file -verify-diagnostics
// Kernels of Llama-like transformers and of masked language models.

// -----

weft.segment @s forward stage 0 () -> () {
  // expected-error@+1 {{[load_tokens_c1] masked must be between 1 and the rows, 6, and mask_token below vocabulary; got masked = 7, mask_token = 1, vocabulary = 8}}
  %0 = weft.load_tokens {mask_token = 1 : i64, masked = 7 : i64, vocabulary = 8 : i64} : tensor<6xi32>
  weft.return
}

// -----

weft.segment @s forward stage 0 () -> () {
  // expected-error@+1 {{[load_targets_c1] masked must be between 1 and the rows, 6, and mask_token below vocabulary; got masked = 1, mask_token = 8, vocabulary = 8}}
  %0 = weft.load_targets {mask_token = 8 : i64, masked = 1 : i64, vocabulary = 8 : i64} : tensor<6xi32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c7] must take qkv, or q, k and v}}
  %0, %1 = weft.attention %x, %x {heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c7] heads = 2 must divide q's 4 columns, and kv_heads = 0 must divide heads}}
  %0, %1 = weft.attention %x, %x, %x {heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c7] k (rows x kv_heads * head size) must be 6x2, got 6x4}}
  %0, %1 = weft.attention %x, %x, %x {kv_heads = 1 : i64, heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[attention_c8] window = 2 must not be negative, and needs causal}}
  %0, %1 = weft.attention %x, %x, %x {kv_heads = 2 : i64, window = 2 : i64, heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x3xf32> as <saved use 0>, %o: tensor<6x1xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_backward_c8] kv_heads is 1; it needs k and v as operands}}
  %0 = weft.attention_backward %o, %x, %o, %o {kv_heads = 1 : i64, heads = 1 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x1xf32>, tensor<6x3xf32>, tensor<6x1xf32>, tensor<6x1xf32>) -> tensor<6x3xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %k: tensor<6x2xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_backward_c9] has 1 results for 3 inputs of attention}}
  %0 = weft.attention_backward %x, %x, %x, %x, %x, %k {kv_heads = 2 : i64, heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %k: tensor<6x2xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_backward_c9] gradient of k and v (like k and v) must be 6x4, got 6x2}}
  %0:3 = weft.attention_backward %x, %x, %x, %x, %x, %k {kv_heads = 2 : i64, heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> (tensor<6x4xf32>, tensor<6x2xf32>, tensor<6x4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %k: tensor<6x2xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[attention_backward_c10] window = 2 must not be negative, and needs causal}}
  %0:3 = weft.attention_backward %x, %x, %x, %x, %x, %k {kv_heads = 2 : i64, window = 2 : i64, heads = 2 : i64, scale = 0.5 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<3xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[rms_norm_c1] gamma (columns of x) must be 4, got 3}}
  %0, %1 = weft.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<3xf32>) -> (tensor<6x4xf32>, tensor<6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[rms_norm_c2] result (like x) must be 6x4, got 6x3}}
  %0, %1 = weft.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x3xf32>, tensor<6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[rms_norm_c3] rstd (rows of x) must be 6, got 4}}
  %0, %1 = weft.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[rms_norm_c4] rstd must hold 'f32', got 'bf16'}}
  %0, %1 = weft.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xbf16>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>) -> () {
  // expected-error@+1 {{[rms_norm_c5] epsilon must be positive and finite, got 0.000000}}
  %0, %1 = weft.rms_norm %x, %g {epsilon = 0.0 : f64} : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>)
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>, %r: tensor<6xf32> as <saved use 2>, %y: tensor<6x3xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[rms_norm_backward_c1] dy (like x) must be 6x4, got 6x3}}
  %0 = weft.rms_norm_backward %y, %x, %g, %r : (tensor<6x3xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<3xf32> as <saved use 1>, %r: tensor<6xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[rms_norm_backward_c2] gamma (columns of x) must be 4, got 3}}
  %0 = weft.rms_norm_backward %x, %x, %g, %r : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<3xf32>, tensor<6xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>, %r: tensor<5xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[rms_norm_backward_c3] rstd (rows of x) must be 6, got 5}}
  %0 = weft.rms_norm_backward %x, %x, %g, %r : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<5xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>, %r: tensor<6xbf16> as <saved use 2>) -> () {
  // expected-error@+1 {{[rms_norm_backward_c4] rstd must hold 'f32', got 'bf16'}}
  %0 = weft.rms_norm_backward %x, %x, %g, %r : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xbf16>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<4xf32> as <saved use 1>, %r: tensor<6xf32> as <saved use 2>, %y: tensor<6x3xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[rms_norm_backward_c5] init (like the result) must be of type 'tensor<6x4xf32>', got 'tensor<6x3xf32>'}}
  %0 = weft.rms_norm_backward %x, %x, %g, %r init %y : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<6x3xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %r: tensor<6xf32> as <saved use 2>, %y: tensor<6x3xf32> as <saved use 3>) -> () {
  // expected-error@+1 {{[rms_norm_backward_weight_c1] dy (like x) must be 6x4, got 6x3}}
  %0 = weft.rms_norm_backward_weight %y, %x, %r : (tensor<6x3xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %r: tensor<5xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[rms_norm_backward_weight_c2] rstd (rows of x) must be 6, got 5}}
  %0 = weft.rms_norm_backward_weight %x, %x, %r : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<5xf32>) -> tensor<4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %r: tensor<6xbf16> as <saved use 2>) -> () {
  // expected-error@+1 {{[rms_norm_backward_weight_c3] rstd must hold 'f32', got 'bf16'}}
  %0 = weft.rms_norm_backward_weight %x, %x, %r : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xbf16>) -> tensor<4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %r: tensor<6xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[rms_norm_backward_weight_c4] result (columns of x) must be 4, got 3}}
  %0 = weft.rms_norm_backward_weight %x, %x, %r : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<3xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>, %g: tensor<3xf32> as <saved use 1>, %r: tensor<6xf32> as <saved use 2>) -> () {
  // expected-error@+1 {{[rms_norm_backward_weight_c5] init (like the result) must be of type 'tensor<4xf32>', got 'tensor<3xf32>'}}
  %0 = weft.rms_norm_backward_weight %x, %x, %r init %g : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>, tensor<3xf32>) -> tensor<4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[rope_c1] result (like x) must be 6x4, got 6x3}}
  %0 = weft.rope %x {base = 100.0 : f64, magnitude = 1.0 : f64, head_size = 2 : i64, sequence = 3 : i64} : (tensor<6x4xf32>) -> tensor<6x3xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[rope_c2] head_size = 3 must be even and divide x's 4 columns}}
  %0 = weft.rope %x {base = 100.0 : f64, magnitude = 1.0 : f64, head_size = 3 : i64, sequence = 3 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[rope_c3] sequence = 4 must divide x's rows, 6}}
  %0 = weft.rope %x {base = 100.0 : f64, magnitude = 1.0 : f64, head_size = 2 : i64, sequence = 4 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[rope_c4] base must be above 1 and magnitude positive, got 1.000000 and 1.000000}}
  %0 = weft.rope %x {base = 1.0 : f64, magnitude = 1.0 : f64, head_size = 2 : i64, sequence = 3 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.return
}

// -----

weft.segment @s forward stage 0 (%x: tensor<6x4xf32> as <saved use 0>) -> () {
  // expected-error@+1 {{[rope_c5] factor must be positive and ramp_low below ramp_high, or factor, ramp_low, ramp_high and ramp_positions must all be 0}}
  %0 = weft.rope %x {base = 100.0 : f64, magnitude = 1.0 : f64, head_size = 2 : i64, sequence = 3 : i64, factor = 2.0 : f64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  weft.return
}
