// RUN: weft-opt %s | FileCheck %s

// CHECK-LABEL: weft.segment @s forward
weft.segment @s forward stage 0 (
    %x: tensor<4x8xf32> as <saved use 0>, %part: tensor<16xbf16> as <saved use 1>, %bias: tensor<2xbf16> as <saved use 2>,
    %dw: tensor<4x8xbf16> as <saved use 3>, %g: tensor<16xf32> as <saved use 4>,
    %acc: tensor<16x!weft.exact192> as <saved use 5>, %t: tensor<6xi32> as <saved use 6>)
    -> (<output>) {
  // CHECK: weft.group_all_reduce(%{{.*}}) over {x = array<i64>} members 2 tensor "ring" {blocking} :
  %y = weft.group_all_reduce (%x) over {x = array<i64>} members 2 tensor "ring" {blocking}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: weft.group_all_gather(%{{.*}}, %{{.*}}) over {z = array<i64>} members 2 gather_weights "ring" :
  %w:2 = weft.group_all_gather (%part, %bias) over {z = array<i64>} members 2 gather_weights "ring"
      : (tensor<16xbf16>, tensor<2xbf16>) -> (tensor<4x8xbf16>, tensor<4xbf16>)
  // CHECK: weft.group_reduce_scatter(%{{.*}}) init(%{{.*}}) over {data = {block = 2 : i64}} members 2 scatter_gradients "ring" {detached} :
  %g1 = weft.group_reduce_scatter (%dw) init (%g) over {data = {block = 2 : i64}} members 2 scatter_gradients "ring" {detached}
      : (tensor<4x8xbf16>, tensor<16xf32>) -> tensor<16xf32>
  // CHECK: weft.group_reduce_scatter(%{{.*}}) over {data = {stride = 2 : i64}, pipe = array<i64: 0, 3>} members 4 tensor "tree" :
  %r = weft.group_reduce_scatter (%x) over {data = {stride = 2 : i64}, pipe = array<i64: 0, 3>} members 4 tensor "tree"
      : (tensor<4x8xf32>) -> tensor<1x8xf32>
  // Into an exact accumulator.
  // CHECK: weft.group_reduce_scatter
  %e = weft.group_reduce_scatter (%dw) init (%acc) over {z = array<i64>} members 2 scatter_gradients "ring" {blocking}
      : (tensor<4x8xbf16>, tensor<16x!weft.exact192>) -> tensor<16x!weft.exact192>
  // Tensors of any type can be gathered.
  // CHECK: weft.group_all_gather
  %tt = weft.group_all_gather (%t) over {z = array<i64>} members 2 tensor "ring" {blocking}
      : (tensor<6xi32>) -> tensor<12xi32>
  weft.return %y : tensor<4x8xf32>
}

// CHECK-LABEL: weft.graph @g
weft.graph @g {
^bb0(%losses: tensor<1xf64>):
  %p = weft.parameter 0 : tensor<4x8xf32>
  // CHECK: weft.fan_out %{{.*}} over {x = array<i64>} members 2 tensor "ring" : tensor<4x8xf32>
  %f = weft.fan_out %p over {x = array<i64>} members 2 tensor "ring" : tensor<4x8xf32>
  // CHECK: weft.cut_gradients(%{{.*}}) over {data = array<i64>} members 2 "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = weft.cut_gradients (%p) over {data = array<i64>} members 2 "ring" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  weft.yield %losses : tensor<1xf64>
}
