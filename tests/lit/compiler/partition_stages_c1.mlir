// RUN: weft-opt %s --weft-partition-stages="stages=2 layers-per-stage=1,2" -verify-diagnostics

// expected-error@+1 {{[partition_stages_c1] plan.partition.layers_per_stage has 2 stages with 3 layers in all; needed: 2 stages of at least one layer each, with 2 layers in all}}
weft.graph @model {
^bb0(%losses: tensor<1xf64>):
  %tokens = weft.load_tokens {layer = 0 : i32} : tensor<4xi32>
  %targets = weft.load_targets {layer = 1 : i32} : tensor<4xi32>
  weft.yield %losses : tensor<1xf64>
}
