// RUN: weft-opt %s --weft-partition-stages=stages=3 -split-input-file -verify-diagnostics

// expected-error@+1 {{[partition_stages_c2] an op weft.load_targets has no layer between 0 and 2^24}}
weft.graph @model {
^bb0(%losses: tensor<1xf64>):
  %tokens = weft.load_tokens {layer = 0 : i32} : tensor<4xi32>
  %targets = weft.load_targets {layer = 16777217 : i32} : tensor<4xi32>
  weft.yield %losses : tensor<1xf64>
}

// -----

// expected-error@+1 {{[partition_stages_c4] cannot cut 2 layers into 3 stages of at least one layer; at most 2 stages}}
weft.graph @model {
^bb0(%losses: tensor<1xf64>):
  %tokens = weft.load_tokens {layer = 0 : i32} : tensor<4xi32>
  %targets = weft.load_targets {layer = 1 : i32} : tensor<4xi32>
  weft.yield %losses : tensor<1xf64>
}

// -----

weft.graph @model {
^bb0(%losses: tensor<1xf64>):
  %tokens = weft.load_tokens {layer = 1 : i32} : tensor<4xi32>
  // expected-error@+1 {{[partition_stages_c5] needs a `layer` that is not below the layer of the op before it}}
  %targets = weft.load_targets {layer = 0 : i32} : tensor<4xi32>
  weft.yield %losses : tensor<1xf64>
}
