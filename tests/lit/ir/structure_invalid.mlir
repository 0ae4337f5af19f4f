// RUN: weft-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// expected-error@+1 {{[tensor_c1] type must be a statically shaped tensor, got 'f32'}}
weft.tensor @w index 0 shape [4] : f32

// -----

// expected-error@+1 {{[tensor_c2] shape 4x3 may differ from the stored shape 4x4 only by being smaller in dimension 0}}
weft.tensor @w index 0 shape [4, 3] : tensor<4x4xf32>

// -----

// expected-error@+1 {{[tensor_c3] index must be at least 0 and uses at least 1, got index 0 and uses 0}}
weft.tensor @w index 0 shape [4] : tensor<4xf32> {uses = 0 : i32}

// -----

weft.graph @model {
^bb0(%losses: tensor<2xf64>):
  // expected-error@+1 {{[parameter_c1] tensor and use must not be negative, got tensor -1 use 0}}
  %0 = weft.parameter -1 : tensor<4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

// expected-error@+1 {{[graph_c1] its block must have one argument, the vector of losses (f64)}}
weft.graph @model {
^bb0(%losses: tensor<2xf32>):
  %0 = weft.fill {value = 0.0 : f64} : tensor<2xf64>
  weft.yield %0 : tensor<2xf64>
}

// -----

// expected-error@+1 {{[graph_c2] its block must end with weft.yield}}
weft.graph @model {
^bb0(%losses: tensor<2xf64>):
  "other.end"() : () -> ()
}

// -----

weft.graph @model {
^bb0(%losses: tensor<2xf64>):
  %0 = weft.fill {value = 0.0 : f64} : tensor<3xf64>
  // expected-error@+1 {{[graph_c3] must yield losses of type 'tensor<2xf64>', got 'tensor<3xf64>'}}
  weft.yield %0 : tensor<3xf64>
}

// -----

weft.graph @model {
^bb0(%losses: tensor<2xf64>):
  %0 = weft.parameter 1 : tensor<4xf32>
  // expected-error@+1 {{[graph_c4] tensor 1 use 0 appears twice}}
  %1 = weft.parameter 1 : tensor<4xf32>
  weft.yield %losses : tensor<2xf64>
}

// -----

// expected-error@+1 {{[segment_c1] 0 argument roles for 1 arguments}}
"weft.segment"() <{sym_name = "s", kind = #weft<segment_kind forward>, stage = 0 : i32, arg_roles = [], result_roles = []}> ({
^bb0(%x: tensor<4xf32>):
  weft.return
}) : () -> ()

// -----

// expected-error@+1 {{[segment_c2] its block must end with weft.return}}
weft.segment @s forward stage 0 () -> () {
  "other.end"() : () -> ()
}

// -----

// expected-error@+1 {{[segment_c3] 0 result roles for 1 returned values}}
weft.segment @s forward stage 0 () -> () {
  %0 = weft.load_tokens : tensor<4xi32>
  weft.return %0 : tensor<4xi32>
}

// -----

// expected-error@+1 {{[segment_c4] two arguments have the role #weft.role<input>}}
weft.segment @s forward stage 0 (%0: tensor<4xf32> as <input>, %1: tensor<4xf32> as <input>) -> () {
  weft.return
}

// -----

// expected-error@+1 {{[segment_c5] two results have the role #weft.role<saved>}}
weft.segment @s forward stage 0 () -> (<saved>, <saved>) {
  %0 = weft.load_tokens : tensor<4xi32>
  weft.return %0, %0 : tensor<4xi32>, tensor<4xi32>
}

// -----

// expected-error@+1 {{[segment_c6] the result with role #weft.role<grad tensor 0> has type 'tensor<5xf32>', its argument 'tensor<4xf32>'}}
weft.segment @s backward stage 0 (%g: tensor<4xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
  %0 = weft.fill {value = 0.0 : f64} : tensor<5xf32>
  weft.return %0 : tensor<5xf32>
}

// -----

// expected-error@+1 {{[segment_c7] stage must not be negative, got -1}}
weft.segment @s forward stage -1 () -> () {
  weft.return
}

// -----

// expected-error@+1 {{[segment_c8] rank must not be negative, and only grad_norm, scale_gradients and optimizer_step have one; got rank 1 for backward}}
weft.segment @s backward stage 0 rank 1 () -> () {
  weft.return
}

// -----

// expected-error@+1 {{[segment_c8] rank must not be negative, and only grad_norm, scale_gradients and optimizer_step have one; got rank -1 for grad_norm}}
weft.segment @s grad_norm stage 0 rank -1 () -> () {
  weft.return
}

// -----

// expected-error@+1 {{unknown kind of segment 'sideways'; known: forward, backward, backward_input, backward_weight, grad_norm, scale_gradients, optimizer_step, evaluate}}
weft.segment @s sideways stage 0 () -> () {
  weft.return
}

// -----

// expected-error@+1 {{[tensor_c4] cuts must name a dimension and its runs, as in {x = array<i64: 1, 3>}, got array<i64: 2, 1>}}
weft.tensor @w index 0 shape [8, 4] : tensor<4x4xf32> {padded = array<i64: 8, 4>, cuts = {x = array<i64: 2, 1>}}
