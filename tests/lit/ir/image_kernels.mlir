// Every op of image models prints as it was read.
// RUN: weft-opt %s | weft-opt | FileCheck %s
// RUN: weft-opt --mlir-print-op-generic %s | weft-opt | FileCheck %s

// CHECK-LABEL: weft.graph @image
weft.graph @image {
^bb0(%losses: tensor<2xf64>):
  // CHECK: weft.load_timesteps {diffusion_steps = 10 : i64} : tensor<2xi32>
  %t = weft.load_timesteps {diffusion_steps = 10 : i64} : tensor<2xi32>
  // CHECK: weft.timestep_embedding %{{.*}} {timestep_scale = 1.000000e+00 : f64} : (tensor<2xi32>) -> tensor<2x8xf32>
  %s = weft.timestep_embedding %t {timestep_scale = 1.0 : f64} : (tensor<2xi32>) -> tensor<2x8xf32>
  // CHECK: weft.load_noisy_image {cosine_schedule, diffusion_steps = 10 : i64, sequence = 4 : i64} : tensor<8x3xf32>
  %x = weft.load_noisy_image {sequence = 4 : i64, diffusion_steps = 10 : i64, cosine_schedule} : tensor<8x3xf32>
  %w = weft.parameter 0 : tensor<4x3x3x3xf32>
  %b = weft.parameter 1 : tensor<4xf32>
  // CHECK: weft.conv2d %{{.*}}, %{{.*}} bias %{{.*}} {height = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64, width = 2 : i64} : (tensor<8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %y = weft.conv2d %x, %w bias %b {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %v = weft.parameter 2 : tensor<4x4x1xf32>
  // CHECK: weft.conv2d %{{.*}}, %{{.*}} {height = 2 : i64, kernel_size = 1 : i64, stride = 2 : i64, width = 2 : i64} : (tensor<8x4xf32>, tensor<4x4x1xf32>) -> tensor<2x4xf32>
  %z = weft.conv2d %y, %v {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 2 : i64} : (tensor<8x4xf32>, tensor<4x4x1xf32>) -> tensor<2x4xf32>
  %g = weft.parameter 3 : tensor<4xf32>
  // CHECK: weft.group_norm %{{.*}} {epsilon = 1.000000e-05 : f64, groups = 2 : i64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %n:3 = weft.group_norm %y, %g, %b {groups = 2 : i64, sequence = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  // CHECK: weft.silu %{{.*}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %a = weft.silu %n#0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: weft.scale_shift %{{.*}}, %{{.*}} {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
  %c = weft.scale_shift %a, %s {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
  // CHECK: weft.add_per_sample %{{.*}}, %{{.*}} {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  %d = weft.add_per_sample %c, %z {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  // CHECK: weft.upsample %{{.*}} {height = 1 : i64, width = 1 : i64} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  %u = weft.upsample %z {height = 1 : i64, width = 1 : i64} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  // CHECK: weft.concat_columns %{{.*}}, %{{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %e = weft.concat_columns %d, %u : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  // CHECK: weft.slice_columns %{{.*}} {first_column = 5 : i64} : (tensor<8x8xf32>) -> tensor<8x3xf32>
  %p = weft.slice_columns %e {first_column = 5 : i64} : (tensor<8x8xf32>) -> tensor<8x3xf32>
  // CHECK: weft.slice_columns %{{.*}} {algorithm = "ring", column_shift = {x = 4 : i64}, first_column = 0 : i64, members = 2 : i64, over = {x = array<i64>}} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  %p1 = weft.slice_columns %e {algorithm = "ring", column_shift = {x = 4 : i64}, first_column = 0 : i64, members = 2 : i64, over = {x = array<i64>}} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  %p2 = weft.group_all_gather (%p1) over {x = array<i64>} members 2 tensor "ring" {blocking} : (tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK: weft.slice_columns %{{.*}} part %{{.*}} {algorithm = "ring", first_column = 0 : i64, groups = 2 : i64, members = 2 : i64, over = {x = array<i64>}} : (tensor<16x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %p3 = weft.slice_columns %p2 part %p1 {algorithm = "ring", first_column = 0 : i64, groups = 2 : i64, members = 2 : i64, over = {x = array<i64>}} : (tensor<16x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  // CHECK: weft.load_noise {sequence = 4 : i64} : tensor<8x3xf32>
  %noise = weft.load_noise {sequence = 4 : i64} : tensor<8x3xf32>
  // CHECK: weft.squared_error %{{.*}} {loss_weight = 5.000000e-01 : f64, sequence = 4 : i64} : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<2xf64>) -> tensor<2xf64>
  %new = weft.squared_error %p, %noise, %losses {sequence = 4 : i64, loss_weight = 0.5 : f64} : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<2xf64>) -> tensor<2xf64>
  // CHECK: weft.squared_error_backward %{{.*}} {loss_weight = 5.000000e-01 : f64} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
  %dp = weft.squared_error_backward %p, %noise {loss_weight = 0.5 : f64} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
  // CHECK: weft.conv2d_backward_weight %{{.*}}, %{{.*}} init %{{.*}} {height = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64, width = 2 : i64} : (tensor<8x4xf32>, tensor<8x3xf32>, tensor<4x3x3x3xf32>) -> tensor<4x3x3x3xf32>
  %dw = weft.conv2d_backward_weight %d, %dp init %w {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<8x3xf32>, tensor<4x3x3x3xf32>) -> tensor<4x3x3x3xf32>
  // CHECK: weft.conv2d_backward %{{.*}}, %{{.*}} {height = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64, width = 2 : i64} : (tensor<8x4xf32>, tensor<4x3x3x3xf32>) -> tensor<8x3xf32>
  %dx = weft.conv2d_backward %d, %w {height = 2 : i64, width = 2 : i64, kernel_size = 3 : i64, stride = 1 : i64} : (tensor<8x4xf32>, tensor<4x3x3x3xf32>) -> tensor<8x3xf32>
  // CHECK: weft.group_norm_backward %{{.*}} {groups = 2 : i64, sequence = 4 : i64} :
  %dn = weft.group_norm_backward %d, %y, %g, %n#1, %n#2 {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<8x4xf32>
  // CHECK: weft.group_norm_backward_weight %{{.*}} init %{{.*}}, %{{.*}} {groups = 2 : i64, sequence = 4 : i64} :
  %dg:2 = weft.group_norm_backward_weight %d, %y, %n#1, %n#2 init %g, %b {groups = 2 : i64, sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: weft.silu_backward %{{.*}}, %{{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %da = weft.silu_backward %d, %y : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: weft.upsample_backward %{{.*}} {height = 1 : i64, width = 1 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %du = weft.upsample_backward %d {height = 1 : i64, width = 1 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  // CHECK: weft.sum_per_sample %{{.*}} {sequence = 4 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %de = weft.sum_per_sample %d {sequence = 4 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  // CHECK: weft.scale_shift_backward %{{.*}}, %{{.*}} {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
  %ds = weft.scale_shift_backward %d, %s {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
  // CHECK: weft.scale_shift_backward_sample %{{.*}}, %{{.*}} {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  %dss = weft.scale_shift_backward_sample %d, %a {sequence = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  weft.yield %new : tensor<2xf64>
}
