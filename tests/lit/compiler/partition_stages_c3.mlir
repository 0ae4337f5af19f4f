// RUN: weft-opt %s --weft-partition-stages="stages=2 layer-costs=1,2,3" -verify-diagnostics

// expected-error@+1 {{[partition_stages_c3] 3 layer costs for 2 layers}}
weft.graph @model {
^bb0(%losses: tensor<1xf64>):
  %tokens = weft.load_tokens {layer = 0 : i32} : tensor<4xi32>
  %targets = weft.load_targets {layer = 1 : i32} : tensor<4xi32>
  weft.yield %losses : tensor<1xf64>
}
