// A small model of images of 2 x 2, with two levels of channels, a concatenation of unequal halves, and times; and one
// rank's part of it.
// RUN: weft-opt %s --weft-shard="x=2 y=2 z=2" | FileCheck %s

module {
  weft.tensor @in index 0 shape [4, 3, 1, 1] : tensor<4x3x1x1xf32>
  weft.tensor @in.bias index 1 shape [4] : tensor<4xf32>
  weft.tensor @gamma index 2 shape [4] : tensor<4xf32>
  weft.tensor @beta index 3 shape [4] : tensor<4xf32>
  weft.tensor @conv index 4 shape [4, 4, 1, 1] : tensor<4x4x1x1xf32>
  weft.tensor @conv.bias index 5 shape [4] : tensor<4xf32>
  weft.tensor @time index 6 shape [8, 4] : tensor<8x4xf32>
  weft.tensor @emb index 7 shape [8, 8] : tensor<8x8xf32>
  weft.tensor @round index 8 shape [8, 4, 1] : tensor<8x4x1xf32>
  weft.tensor @wide index 9 shape [8, 4, 1, 1] : tensor<8x4x1x1xf32>
  weft.tensor @gamma2 index 10 shape [12] : tensor<12xf32>
  weft.tensor @beta2 index 11 shape [12] : tensor<12xf32>
  weft.tensor @out index 12 shape [3, 12, 1, 1] : tensor<3x12x1x1xf32>
  weft.tensor @out.bias index 13 shape [3] : tensor<3xf32>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %t = weft.load_timesteps {diffusion_steps = 10 : i64, name = "t"} : tensor<2xi32>
    %s = weft.timestep_embedding %t {timestep_scale = 1.0 : f64, name = "sines"} : (tensor<2xi32>) -> tensor<2x4xf32>
    %tw = weft.parameter 6 : tensor<8x4xf32>
    %time = weft.matmul %s, %tw {transpose_b, name = "time"} : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
    %image = weft.load_noisy_image {diffusion_steps = 10 : i64, sequence = 4 : i64, name = "image"} : tensor<8x3xf32>
    %w0 = weft.parameter 0 : tensor<4x3x1x1xf32>
    %b0 = weft.parameter 1 : tensor<4xf32>
    %x = weft.conv2d %image, %w0 bias %b0 {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64, name = "in"} : (tensor<8x3xf32>, tensor<4x3x1x1xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %g = weft.parameter 2 : tensor<4xf32>
    %b = weft.parameter 3 : tensor<4xf32>
    %n, %mean, %rstd = weft.group_norm %x, %g, %b {epsilon = 1.0e-5 : f64, groups = 2 : i64, sequence = 4 : i64, name = "norm"} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
    %w = weft.parameter 4 : tensor<4x4x1x1xf32>
    %wb = weft.parameter 5 : tensor<4xf32>
    %h = weft.conv2d %n, %w bias %wb {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64, name = "conv"} : (tensor<8x4xf32>, tensor<4x4x1x1xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %ew = weft.parameter 7 : tensor<8x8xf32>
    %e = weft.matmul %time, %ew {transpose_b, name = "emb"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %f = weft.scale_shift %h, %e {sequence = 4 : i64, name = "scale"} : (tensor<8x4xf32>, tensor<2x8xf32>) -> tensor<8x4xf32>
    %w9 = weft.parameter 9 : tensor<8x4x1x1xf32>
    %wide = weft.conv2d %f, %w9 {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64, name = "wide"} : (tensor<8x4xf32>, tensor<8x4x1x1xf32>) -> tensor<8x8xf32>
    %w8 = weft.parameter 8 : tensor<8x4x1xf32>
    %round = weft.conv2d %x, %w8 {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64, name = "round"} : (tensor<8x4xf32>, tensor<8x4x1xf32>) -> tensor<8x8xf32>
    %r = weft.add %round, %wide {name = "residual"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %c = weft.concat_columns %r, %x {name = "concat"} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x12xf32>
    %g2 = weft.parameter 10 : tensor<12xf32>
    %b2 = weft.parameter 11 : tensor<12xf32>
    %n2, %mean2, %rstd2 = weft.group_norm %c, %g2, %b2 {epsilon = 1.0e-5 : f64, groups = 2 : i64, sequence = 4 : i64, name = "norm2"} : (tensor<8x12xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<8x12xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
    %wo = weft.parameter 12 : tensor<3x12x1x1xf32>
    %bo = weft.parameter 13 : tensor<3xf32>
    %y = weft.conv2d %n2, %wo bias %bo {height = 2 : i64, width = 2 : i64, kernel_size = 1 : i64, stride = 1 : i64, name = "out"} : (tensor<8x12xf32>, tensor<3x12x1x1xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    %noise = weft.load_noise {sequence = 4 : i64, name = "noise"} : tensor<8x3xf32>
    %new = weft.squared_error %y, %noise, %losses {loss_weight = 0.1 : f64, sequence = 4 : i64, name = "loss"} : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<2xf64>) -> tensor<2xf64>
    weft.yield %new : tensor<2xf64>
  }
}

// CHECK: weft.tensor @in index 0 shape [4, 3, 1, 1] : tensor<3xf32> {cuts = {x = array<i64: 0, 1>}, grad_ranges = ["z"], padded = array<i64: 4, 3, 1, 1>, ranges = ["z"], state_ranges = ["z"]}
// CHECK: weft.tensor @in.bias index 1 shape [4] : tensor<2xf32> {cuts = {x = array<i64: 0, 1>}, padded = array<i64: 4>, partial = ["z"]}
// CHECK: weft.tensor @gamma index 2 shape [4] : tensor<2xf32> {cuts = {x = array<i64: 0, 1>}, padded = array<i64: 4>, partial = ["z"]}
// CHECK: weft.tensor @beta index 3 shape [4] : tensor<2xf32> {cuts = {x = array<i64: 0, 1>}, padded = array<i64: 4>, partial = ["z"]}
// CHECK: weft.tensor @conv index 4 shape [4, 4, 1, 1] : tensor<2xf32> {cuts = {x = array<i64: 1, 1>, y = array<i64: 0, 1>}, grad_ranges = ["z"], padded = array<i64: 4, 4, 1, 1>, ranges = ["z"], state_ranges = ["z"]}
// CHECK: weft.tensor @conv.bias index 5 shape [4] : tensor<2xf32> {cuts = {y = array<i64: 0, 1>}, padded = array<i64: 4>, partial = ["z"]}
// CHECK: weft.tensor @time index 6 shape [8, 4] : tensor<8xf32> {cuts = {x = array<i64: 0, 1>}, grad_ranges = ["z"], padded = array<i64: 8, 4>, ranges = ["z"], state_ranges = ["z"]}
// CHECK: weft.tensor @emb index 7 shape [8, 8] : tensor<8xf32> {cuts = {x = array<i64: 1, 1>, y = array<i64: 0, 2>}, grad_ranges = ["z"], padded = array<i64: 8, 8>, ranges = ["z"], state_ranges = ["z"]}
// CHECK: weft.tensor @round index 8 shape [8, 4, 1] : tensor<4xf32> {cuts = {x = array<i64: 1, 1>, y = array<i64: 0, 1>}, grad_ranges = ["z"], padded = array<i64: 8, 4, 1>, ranges = ["z"], state_ranges = ["z"]}
// CHECK: weft.tensor @wide index 9 shape [8, 4, 1, 1] : tensor<4xf32> {cuts = {x = array<i64: 0, 1>, y = array<i64: 1, 1>}, grad_ranges = ["z"], padded = array<i64: 8, 4, 1, 1>, ranges = ["z"], state_ranges = ["z"]}
// CHECK: weft.tensor @gamma2 index 10 shape [12] : tensor<6xf32> {cuts = {x = array<i64: 0, 1>}, padded = array<i64: 12>, partial = ["z"]}
// CHECK: weft.tensor @beta2 index 11 shape [12] : tensor<6xf32> {cuts = {x = array<i64: 0, 1>}, padded = array<i64: 12>, partial = ["z"]}
// CHECK: weft.tensor @out index 12 shape [3, 12, 1, 1] : tensor<9xf32> {cuts = {x = array<i64: 1, 1>}, grad_ranges = ["z"], padded = array<i64: 3, 12, 1, 1>, ranges = ["z"], state_ranges = ["z"]}
// CHECK: weft.tensor @out.bias index 13 shape [3] : tensor<3xf32> {partial = ["z"]}
// CHECK: weft.load_timesteps {diffusion_steps = 10 : i64, name = "t"} : tensor<1xi32>
// CHECK: weft.timestep_embedding {{%[a-z_0-9]+}} {name = "sines", timestep_scale = 1.000000e+00 : f64} : (tensor<1xi32>) -> tensor<1x4xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "time.gather"} : (tensor<8xf32>) -> tensor<4x4xf32>
// CHECK: weft.fan_out {{%[a-z_0-9]+}} over {x = array<i64>} members 2 tensor "ring" {name = "time.fan_out"} : tensor<1x4xf32>
// CHECK: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {name = "time", transpose_b} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
// CHECK: weft.load_noisy_image {diffusion_steps = 10 : i64, name = "image", sequence = 4 : i64} : tensor<4x3xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "in.gather"} : (tensor<3xf32>) -> tensor<2x3x1x1xf32>
// CHECK: weft.fan_out {{%[a-z_0-9]+}} over {x = array<i64>} members 2 tensor "ring" {name = "in.fan_out"} : tensor<4x3xf32>
// CHECK: weft.conv2d {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} bias {{%[a-z_0-9]+}} {height = 2 : i64, kernel_size = 1 : i64, name = "in", stride = 1 : i64, width = 2 : i64} : (tensor<4x3xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<4x2xf32>
// CHECK: weft.group_norm {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {epsilon = 1.000000e-05 : f64, groups = 1 : i64, name = "norm", sequence = 4 : i64} : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4x2xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "conv.gather"} : (tensor<2xf32>) -> tensor<2x2x1x1xf32>
// CHECK: weft.fan_out {{%[a-z_0-9]+}} over {y = array<i64>} members 2 tensor "ring" {name = "conv.fan_out"} : tensor<4x2xf32>
// CHECK: weft.conv2d {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {height = 2 : i64, kernel_size = 1 : i64, name = "conv", stride = 1 : i64, width = 2 : i64} : (tensor<4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<4x2xf32>
// CHECK: weft.group_all_reduce({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, name = "conv.all_reduce"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK: weft.bias_add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {name = "conv.bias"} : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "emb.gather"} : (tensor<8xf32>) -> tensor<4x4xf32>
// CHECK: weft.fan_out {{%[a-z_0-9]+}} over {y = array<i64>} members 2 tensor "ring" {name = "emb.fan_out"} : tensor<1x4xf32>
// CHECK: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {name = "emb", transpose_b} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
// CHECK: weft.group_all_reduce({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, name = "emb.all_reduce"} : (tensor<1x4xf32>) -> tensor<1x4xf32>
// CHECK: weft.scale_shift {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {name = "scale", sequence = 4 : i64} : (tensor<4x2xf32>, tensor<1x4xf32>) -> tensor<4x2xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "wide.gather"} : (tensor<4xf32>) -> tensor<4x2x1x1xf32>
// CHECK: weft.fan_out {{%[a-z_0-9]+}} over {x = array<i64>} members 2 tensor "ring" {name = "wide.fan_out"} : tensor<4x2xf32>
// CHECK: weft.conv2d {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {height = 2 : i64, kernel_size = 1 : i64, name = "wide", stride = 1 : i64, width = 2 : i64} : (tensor<4x2xf32>, tensor<4x2x1x1xf32>) -> tensor<4x4xf32>
// CHECK: weft.group_all_reduce({{%[a-z_0-9]+}}) over {y = array<i64>} members 2 tensor "ring" {blocking, name = "wide.all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "round.gather"} : (tensor<4xf32>) -> tensor<4x2x1xf32>
// CHECK: weft.fan_out {{%[a-z_0-9]+}} over {y = array<i64>} members 2 tensor "ring" {name = "round.fan_out"} : tensor<4x2xf32>
// CHECK: weft.conv2d {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {height = 2 : i64, kernel_size = 1 : i64, name = "round", stride = 1 : i64, width = 2 : i64} : (tensor<4x2xf32>, tensor<4x2x1xf32>) -> tensor<4x4xf32>
// CHECK: weft.group_all_reduce({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, name = "round.all_reduce"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {y = array<i64>} members 2 tensor "ring" {blocking, name = "residual.gather_columns"} : (tensor<4x4xf32>) -> tensor<8x4xf32>
// CHECK: weft.slice_columns {{%[a-z_0-9]+}} part {{%[a-z_0-9]+}} {algorithm = "ring", first_column = 0 : i64, groups = 2 : i64, members = 2 : i64, name = "residual.whole_columns", over = {y = array<i64>}} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
// CHECK: weft.slice_columns {{%[a-z_0-9]+}} {algorithm = "ring", column_shift = {x = 4 : i64}, first_column = 0 : i64, members = 2 : i64, name = "residual.own_columns", over = {x = array<i64>}} : (tensor<4x8xf32>) -> tensor<4x4xf32>
// CHECK: weft.add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {name = "residual"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, name = "concat.gather_columns"} : (tensor<4x4xf32>) -> tensor<8x4xf32>
// CHECK: weft.slice_columns {{%[a-z_0-9]+}} part {{%[a-z_0-9]+}} {algorithm = "ring", first_column = 0 : i64, groups = 2 : i64, members = 2 : i64, name = "concat.whole_columns", over = {x = array<i64>}} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, name = "concat.gather_columns"} : (tensor<4x2xf32>) -> tensor<8x2xf32>
// CHECK: weft.slice_columns {{%[a-z_0-9]+}} part {{%[a-z_0-9]+}} {algorithm = "ring", first_column = 0 : i64, groups = 2 : i64, members = 2 : i64, name = "concat.whole_columns", over = {x = array<i64>}} : (tensor<8x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
// CHECK: weft.concat_columns {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {name = "concat"} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
// CHECK: weft.slice_columns {{%[a-z_0-9]+}} {algorithm = "ring", column_shift = {x = 6 : i64}, first_column = 0 : i64, members = 2 : i64, name = "concat.own_columns", over = {x = array<i64>}} : (tensor<4x12xf32>) -> tensor<4x6xf32>
// CHECK: weft.group_norm {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {epsilon = 1.000000e-05 : f64, groups = 1 : i64, name = "norm2", sequence = 4 : i64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
// CHECK: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, name = "out.gather"} : (tensor<9xf32>) -> tensor<3x6x1x1xf32>
// CHECK: weft.conv2d {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {height = 2 : i64, kernel_size = 1 : i64, name = "out", stride = 1 : i64, width = 2 : i64} : (tensor<4x6xf32>, tensor<3x6x1x1xf32>) -> tensor<4x3xf32>
// CHECK: weft.group_all_reduce({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, name = "out.all_reduce"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK: weft.bias_add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {name = "out.bias"} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
// CHECK: weft.load_noise {name = "noise", sequence = 4 : i64} : tensor<4x3xf32>
// CHECK: weft.squared_error {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {loss_weight = 1.000000e-01 : f64, name = "loss", sequence = 4 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<2xf64>) -> tensor<2xf64>
