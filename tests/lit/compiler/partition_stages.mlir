// As the plan states: 1 layer, then 3.
// RUN: weft-opt %s --weft-partition-stages="stages=2 layers-per-stage=1,3" | FileCheck %s --check-prefix=GIVEN
// By cost: {10} {1, 1, 10}; the last stage gets the cheap layers.
// RUN: weft-opt %s --weft-partition-stages="stages=2 layer-costs=10,1,1,8" | FileCheck %s --check-prefix=GIVEN
// RUN: weft-opt %s --weft-partition-stages="stages=2 layer-costs=1,1,1,10" | FileCheck %s --check-prefix=LATE
// {1, 1 + 9 recomputed} {1, 8}, where the first layer of a stage is recomputed.
// RUN: weft-opt %s --weft-partition-stages="stages=2 layer-costs=1,1,1,8 recompute-costs=-1,9,2,-1 recompute-every=2" | FileCheck %s --check-prefix=AGAIN
// By nominal cost: layer 2 has the only product that counts, so it is alone in the middle stage.
// RUN: weft-opt %s --weft-partition-stages=stages=3 | FileCheck %s --check-prefix=NOMINAL

weft.graph @model {
^bb0(%losses: tensor<1xf64>):
  // GIVEN: weft.load_tokens {layer = 0 : i32, stage = 0 : i32}
  // LATE: weft.load_tokens {layer = 0 : i32, stage = 0 : i32}
  // NOMINAL: weft.load_tokens {layer = 0 : i32, stage = 0 : i32}
  %tokens = weft.load_tokens {layer = 0 : i32} : tensor<64xi32>
  // GIVEN: weft.parameter 0 {layer = 0 : i32, stage = 0 : i32}
  %table = weft.parameter 0 {layer = 0 : i32} : tensor<64x64xf32>
  %x = weft.embedding %tokens, %table {layer = 0 : i32} : (tensor<64xi32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  // GIVEN: weft.gelu {{.*}} {layer = 1 : i32, stage = 1 : i32}
  // LATE: weft.gelu {{.*}} {layer = 1 : i32, stage = 0 : i32}
  // NOMINAL: weft.gelu {{.*}} {layer = 1 : i32, stage = 0 : i32}
  // AGAIN: weft.gelu {{.*}} {layer = 1 : i32, stage = 0 : i32}
  // AGAIN: weft.parameter 1 {layer = 2 : i32, stage = 1 : i32}
  %y = weft.gelu %x {layer = 1 : i32} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  // GIVEN: weft.parameter 1 {layer = 2 : i32, stage = 1 : i32}
  // LATE: weft.parameter 1 {layer = 2 : i32, stage = 0 : i32}
  // NOMINAL: weft.parameter 1 {layer = 2 : i32, stage = 1 : i32}
  %w = weft.parameter 1 {layer = 2 : i32} : tensor<64x64000xf32>
  %z = weft.matmul %y, %w {layer = 2 : i32} : (tensor<64x64xf32>, tensor<64x64000xf32>) -> tensor<64x64000xf32>
  // GIVEN: weft.gelu {{.*}} {layer = 3 : i32, stage = 1 : i32}
  // LATE: weft.gelu {{.*}} {layer = 3 : i32, stage = 1 : i32}
  // NOMINAL: weft.gelu {{.*}} {layer = 3 : i32, stage = 2 : i32}
  %v = weft.gelu %z {layer = 3 : i32} : (tensor<64x64000xf32>) -> tensor<64x64000xf32>
  weft.yield %losses : tensor<1xf64>
}
