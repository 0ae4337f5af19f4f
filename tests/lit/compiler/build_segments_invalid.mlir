// RUN: weft-opt %s --weft-build-segments -split-input-file -verify-diagnostics

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  // expected-error@+1 {{[build_segments_c1] tensors must be declared in the order of their indices; expected index 0, got 1}}
  weft.tensor @w index 1 shape [4] : tensor<4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    // expected-error@+1 {{[build_segments_c2] needs a `layer`, and a `stage` equal to the stage of the op before it or one higher; run weft-partition-stages first}}
    %tokens = weft.load_tokens {layer = 0 : i32} : tensor<6xi32>
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    // expected-error@+1 {{[build_segments_c3] needs a weft.tensor with index 0 and type 'tensor<4x8xf32>'}}
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<4x8xf32>
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    // expected-error@+1 {{[build_segments_c4] uses of a tensor must be numbered 0, 1, ... in model order}}
    %w = weft.parameter 0 use 1 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    // expected-error@+1 {{[build_segments_c5] must have exactly one reader, in its own stage; add one weft.parameter for each reader}}
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    %0 = weft.add %w, %w {layer = 0 : i32, stage = 0 : i32} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  // expected-error@+1 {{[build_segments_c6] declares 2 uses, the graph has 1}}
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32> {uses = 2 : i32}
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %w {layer = 0 : i32, stage = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %targets = weft.load_targets {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %x, %targets, %losses {layer = 0 : i32, stage = 0 : i32, loss_weight = 0.1 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  // expected-error@+1 {{[build_segments_c8] has no op}}
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  // expected-error@+1 {{[build_segments_c9] no value crosses from stage 0 to stage 1; cut the layers elsewhere}}
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    %x = weft.load_noise {layer = 0 : i32, stage = 0 : i32, sequence = 3 : i64} : tensor<6x4xf32>
    %y = weft.silu %x {layer = 0 : i32, stage = 0 : i32} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %z = weft.load_noise {layer = 1 : i32, stage = 1 : i32, sequence = 3 : i64} : tensor<6x4xf32>
    %new = weft.squared_error %z, %z, %losses {layer = 1 : i32, stage = 1 : i32, loss_weight = 0.1 : f64, sequence = 3 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<2xf64>) -> tensor<2xf64>
    weft.yield %new : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  // expected-error@+1 {{[build_segments_c10] a value that crosses from stage 0 to stage 1 must be a matrix of floats}}
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    // expected-note@+1 {{'tokens' of type 'tensor<6xi32>' crosses}}
    %tokens = weft.load_tokens {layer = 0 : i32, stage = 0 : i32, name = "tokens"} : tensor<6xi32>
    %w = weft.parameter 0 {layer = 1 : i32, stage = 1 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %w {layer = 1 : i32, stage = 1 : i32} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %targets = weft.load_targets {layer = 1 : i32, stage = 1 : i32} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %x, %targets, %losses {layer = 1 : i32, stage = 1 : i32, loss_weight = 0.1 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// -----

// expected-error@+1 {{[build_segments_c14] must have one weft.graph, but has 0}}
module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %w {layer = 0 : i32, stage = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    // expected-error@+1 {{[build_segments_c15] has no derivative, but a parameter's gradient depends on it}}
    %y = weft.gelu_backward %x, %x {layer = 0 : i32, stage = 0 : i32} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
    %targets = weft.load_targets {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %y, %targets, %losses {layer = 0 : i32, stage = 0 : i32, loss_weight = 0.1 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    // expected-error@+1 {{[build_segments_c16] the graph must yield the losses of a cross_entropy or squared_error op}}
    %x = weft.embedding %tokens, %w {layer = 0 : i32, stage = 0 : i32} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.tensor @w index 0 shape [8, 4] : tensor<8x4xf32>
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, stage = 0 : i32} : tensor<6xi32>
    %w = weft.parameter 0 {layer = 0 : i32, stage = 0 : i32} : tensor<8x4xf32>
    %x = weft.embedding %tokens, %w {layer = 0 : i32, stage = 0 : i32, name = "wte"} : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    // expected-error@+1 {{[build_segments_c17] the loss does not depend on what this stage receives}}
    %y = weft.gelu %x {layer = 1 : i32, stage = 1 : i32} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %z = weft.fill {layer = 1 : i32, stage = 1 : i32, value = 0.5 : f64} : tensor<6x4xf32>
    %targets = weft.load_targets {layer = 1 : i32, stage = 1 : i32} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %z, %targets, %losses {layer = 1 : i32, stage = 1 : i32, loss_weight = 0.1 : f64, vocabulary = 4 : i64} : (tensor<6x4xf32>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// -----

// expected-error@+1 {{[training_c1] needs the attribute weft.training}}
module {
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

// expected-error@+2 {{[training_c2] field clip_norm of weft.training must be an f64, at least 0}}
// expected-error@+1 {{[training_c2] field optimizer of weft.training must be "adamw" or "sgd"}}
module attributes {weft.training = {accumulation = "in_order", clip_norm = -1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "lion", momentum = 0.0 : f64}} {
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    weft.yield %losses : tensor<2xf64>
  }
}

// -----

// expected-error@+1 {{[training_c2] field growth_interval of weft.training must be an i32, at least 1, beside loss_scale}}
module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, growth_interval = 100 : i32, master = f32, moments = f32, optimizer = "sgd", momentum = 0.0 : f64}} {
  weft.graph @model {
  ^bb0(%losses: tensor<2xf64>):
    weft.yield %losses : tensor<2xf64>
  }
}
