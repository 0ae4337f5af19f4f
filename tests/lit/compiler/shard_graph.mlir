// A whole model of one layer between embedding and head, and one rank's part of it.
// RUN: weft-opt %s --weft-shard="x=2 y=2 z=2" | FileCheck %s --check-prefix=ALL
// Rows of the residual stream are sharded over x.
// RUN: weft-opt %s --weft-shard="x=2 sequence-parallel sequence=4" | FileCheck %s --check-prefix=ROWS
// RUN: weft-opt %s --weft-shard | FileCheck %s --check-prefix=WHOLE

// WHOLE-NOT: members

module attributes {weft.training = {accumulation = "in_order", clip_norm = 1.0 : f64, grads = f32, master = f32, moments = f32, optimizer = "adamw", beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64}} {
  weft.tensor @wte index 0 shape [14, 4] : tensor<16x4xf32> {uses = 2 : i32}
  weft.tensor @gamma index 1 shape [4] : tensor<4xf32>
  weft.tensor @beta index 2 shape [4] : tensor<4xf32>
  weft.tensor @qkv index 3 shape [4, 12] : tensor<4x12xf32>
  weft.tensor @qkv.bias index 4 shape [12] : tensor<12xf32>
  weft.tensor @proj index 5 shape [4, 4] : tensor<4x4xf32>
  weft.tensor @proj.bias index 6 shape [4] : tensor<4xf32>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<8xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<16x4xf32>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32, name = "wte"} : (tensor<8xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %d = weft.dropout %x {dropout = 0.1 : f64, dropout_site = 1 : i32, layer = 0 : i32, name = "drop"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %g = weft.parameter 1 {layer = 1 : i32} : tensor<4xf32>
    %b = weft.parameter 2 {layer = 1 : i32} : tensor<4xf32>
    %n, %mean, %rstd = weft.layer_norm %d, %g, %b {epsilon = 1.0e-5 : f64, layer = 1 : i32, name = "ln"} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
    %w = weft.parameter 3 {layer = 1 : i32} : tensor<4x12xf32>
    %wb = weft.parameter 4 {layer = 1 : i32} : tensor<12xf32>
    %q = weft.matmul %n, %w bias %wb {layer = 1 : i32, name = "qkv"} : (tensor<8x4xf32>, tensor<4x12xf32>, tensor<12xf32>) -> tensor<8x12xf32>
    %a, %alse = weft.attention %q {causal, heads = 2 : i64, layer = 1 : i32, name = "attn", scale = 1.0 : f64, sequence = 4 : i64} : (tensor<8x12xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
    %p = weft.parameter 5 {layer = 1 : i32} : tensor<4x4xf32>
    %pb = weft.parameter 6 {layer = 1 : i32} : tensor<4xf32>
    %o = weft.matmul %a, %p bias %pb {layer = 1 : i32, name = "proj"} : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %r = weft.add %d, %o {layer = 1 : i32, name = "residual"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<16x4xf32>
    %logits = weft.matmul %r, %head {layer = 2 : i32, name = "head", transpose_b} : (tensor<8x4xf32>, tensor<16x4xf32>) -> tensor<8x16xf32>
    %targets = weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<8xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, name = "loss", vocabulary = 14 : i64} : (tensor<8x16xf32>, tensor<8xi32>, tensor<2xf64>) -> (tensor<8xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}

// ALL: weft.tensor @wte index 0 shape [14, 4] : tensor<8xf32> {cuts = {x = array<i64: 0, 1>, y = array<i64: 1, 1>}, grad_ranges = ["z"], padded = array<i64: 16, 4>, ranges = ["z"], state_ranges = ["z"], uses = 2 : i32}
// ALL: weft.tensor @gamma index 1 shape [4] : tensor<2xf32> {cuts = {y = array<i64: 0, 1>}, padded = array<i64: 4>, partial = ["z"]}
// ALL: weft.tensor @beta index 2 shape [4] : tensor<2xf32> {cuts = {y = array<i64: 0, 1>}, padded = array<i64: 4>, partial = ["z"]}
// ALL: weft.tensor @qkv index 3 shape [4, 12] : tensor<6xf32> {cuts = {x = array<i64: 1, 3>, y = array<i64: 0, 1>}, grad_ranges = ["z"], padded = array<i64: 4, 12>, ranges = ["z"], state_ranges = ["z"]}
// ALL: weft.tensor @qkv.bias index 4 shape [12] : tensor<6xf32> {cuts = {x = array<i64: 0, 3>}, padded = array<i64: 12>, partial = ["z"]}
// ALL: weft.tensor @proj index 5 shape [4, 4] : tensor<2xf32> {cuts = {x = array<i64: 0, 1>, y = array<i64: 1, 1>}, grad_ranges = ["z"], padded = array<i64: 4, 4>, ranges = ["z"], state_ranges = ["z"]}
// ALL: weft.tensor @proj.bias index 6 shape [4] : tensor<2xf32> {cuts = {y = array<i64: 0, 1>}, padded = array<i64: 4>, partial = ["z"]}
// ALL: weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<4xi32>
// ALL: weft.parameter 0 {layer = 0 : i32} : tensor<8xf32>
// ALL: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, layer = 0 : i32, name = "wte.gather"} : (tensor<8xf32>) -> tensor<8x2xf32>
// ALL: weft.embedding {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {column_shift = {x = 8 : i64}, layer = 0 : i32, name = "wte"} : (tensor<4xi32>, tensor<8x2xf32>) -> tensor<4x2xf32>
// ALL: weft.group_all_reduce({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 0 : i32, name = "wte.all_reduce"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
// ALL: weft.dropout {{%[a-z_0-9]+}} {column_shift = {y = 2 : i64}, dropout = 1.000000e-01 : f64, dropout_site = 1 : i32, layer = 0 : i32, name = "drop", whole_columns = 4 : i64} : (tensor<4x2xf32>) -> tensor<4x2xf32>
// ALL: weft.parameter 1 {layer = 1 : i32} : tensor<2xf32>
// ALL: weft.parameter 2 {layer = 1 : i32} : tensor<2xf32>
// ALL: weft.norm_partial {{%[a-z_0-9]+}} {layer = 1 : i32, name = "ln.partial"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
// ALL: weft.group_all_gather({{%[a-z_0-9]+}}) over {y = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "ln.gather_statistics"} : (tensor<4x2xf32>) -> tensor<8x2xf32>
// ALL: weft.norm_combine {{%[a-z_0-9]+}} {epsilon = 1.000000e-05 : f64, layer = 1 : i32, name = "ln.statistics", whole_columns = 4 : i64} : (tensor<8x2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// ALL: weft.norm_apply {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} beta {{%[a-z_0-9]+}} mean {{%[a-z_0-9]+}} rstd {{%[a-z_0-9]+}} {algorithm = "ring", layer = 1 : i32, members = 2 : i64, name = "ln", over = {y = array<i64>}, row_columns = 4 : i64} : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x2xf32>
// ALL: weft.parameter 3 {layer = 1 : i32} : tensor<6xf32>
// ALL: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, layer = 1 : i32, name = "qkv.gather"} : (tensor<6xf32>) -> tensor<2x6xf32>
// ALL: weft.parameter 4 {layer = 1 : i32} : tensor<6xf32>
// ALL: weft.fan_out {{%[a-z_0-9]+}} over {x = array<i64>} members 2 tensor "ring" {layer = 1 : i32, name = "qkv.fan_out"} : tensor<4x2xf32>
// ALL: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "qkv"} : (tensor<4x2xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
// ALL: weft.group_all_reduce({{%[a-z_0-9]+}}) over {y = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "qkv.all_reduce"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
// ALL: weft.bias_add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "qkv.bias"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
// ALL: weft.attention {{%[a-z_0-9]+}} {causal, column_shift = {x = 1 : i64}, heads = 1 : i64, layer = 1 : i32, name = "attn", scale = 1.000000e+00 : f64, sequence = 4 : i64, whole_columns = 2 : i64} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x1xf32>)
// ALL: weft.parameter 5 {layer = 1 : i32} : tensor<2xf32>
// ALL: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, layer = 1 : i32, name = "proj.gather"} : (tensor<2xf32>) -> tensor<2x2xf32>
// ALL: weft.parameter 6 {layer = 1 : i32} : tensor<2xf32>
// ALL: weft.fan_out {{%[a-z_0-9]+}} over {y = array<i64>} members 2 tensor "ring" {layer = 1 : i32, name = "proj.fan_out"} : tensor<4x2xf32>
// ALL: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "proj"} : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
// ALL: weft.group_all_reduce({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "proj.all_reduce"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
// ALL: weft.bias_add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "proj.bias"} : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
// ALL: weft.add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "residual"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
// ALL: weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8xf32>
// ALL: weft.group_all_gather({{%[a-z_0-9]+}}) over {z = array<i64>} members 2 gather_weights "ring" {blocking, layer = 2 : i32, name = "head.gather"} : (tensor<8xf32>) -> tensor<8x2xf32>
// ALL: weft.fan_out {{%[a-z_0-9]+}} over {x = array<i64>} members 2 tensor "ring" {layer = 2 : i32, name = "head.fan_out"} : tensor<4x2xf32>
// ALL: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 2 : i32, name = "head", transpose_b} : (tensor<4x2xf32>, tensor<8x2xf32>) -> tensor<4x8xf32>
// ALL: weft.group_all_reduce({{%[a-z_0-9]+}}) over {y = array<i64>} members 2 tensor "ring" {blocking, layer = 2 : i32, name = "head.all_reduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// ALL: weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<4xi32>
// ALL: weft.cross_entropy_partial {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {column_shift = {x = 8 : i64}, layer = 2 : i32, name = "loss.partial", vocabulary = 14 : i64} : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x2xf32>
// ALL: weft.group_all_gather({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 2 : i32, name = "loss.gather"} : (tensor<4x2xf32>) -> tensor<8x2xf32>
// ALL: weft.cross_entropy_combine {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 2 : i32, logits_shift = {x = 8 : i64}, logits_vocabulary = 14 : i64, loss_weight = 1.000000e-01 : f64, name = "loss"} : (tensor<8x2xf32>, tensor<4xi32>, tensor<4x8xf32>, tensor<2xf64>) -> (tensor<4xf32>, tensor<2xf64>)

// ROWS: weft.tensor @wte index 0 shape [14, 4] : tensor<8x4xf32> {cuts = {x = array<i64: 0, 1>}, padded = array<i64: 16, 4>, uses = 2 : i32}
// ROWS: weft.tensor @gamma index 1 shape [4] : tensor<4xf32> {partial = ["x"]}
// ROWS: weft.tensor @beta index 2 shape [4] : tensor<4xf32> {partial = ["x"]}
// ROWS: weft.tensor @qkv index 3 shape [4, 12] : tensor<4x6xf32> {cuts = {x = array<i64: 1, 3>}, padded = array<i64: 4, 12>}
// ROWS: weft.tensor @qkv.bias index 4 shape [12] : tensor<6xf32> {cuts = {x = array<i64: 0, 3>}, padded = array<i64: 12>}
// ROWS: weft.tensor @proj index 5 shape [4, 4] : tensor<2x4xf32> {cuts = {x = array<i64: 0, 1>}, padded = array<i64: 4, 4>}
// ROWS: weft.tensor @proj.bias index 6 shape [4] : tensor<4xf32> {partial = ["x"]}
// ROWS: weft.load_tokens {layer = 0 : i32, name = "tokens"} : tensor<8xi32>
// ROWS: weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf32>
// ROWS: weft.embedding {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {column_shift = {x = 8 : i64}, layer = 0 : i32, name = "wte"} : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
// ROWS: weft.group_reduce_scatter({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 0 : i32, name = "wte.scatter_rows"} : (tensor<8x4xf32>) -> tensor<4x4xf32>
// ROWS: weft.dropout {{%[a-z_0-9]+}} {dropout = 1.000000e-01 : f64, dropout_site = 1 : i32, layer = 0 : i32, name = "drop", row_shift = {x = 4 : i64}, sequence = 4 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// ROWS: weft.parameter 1 {layer = 1 : i32} : tensor<4xf32>
// ROWS: weft.parameter 2 {layer = 1 : i32} : tensor<4xf32>
// ROWS: weft.layer_norm {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {epsilon = 1.000000e-05 : f64, layer = 1 : i32, name = "ln"} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>)
// ROWS: weft.parameter 3 {layer = 1 : i32} : tensor<4x6xf32>
// ROWS: weft.parameter 4 {layer = 1 : i32} : tensor<6xf32>
// ROWS: weft.group_all_gather({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "qkv.gather_rows"} : (tensor<4x4xf32>) -> tensor<8x4xf32>
// ROWS: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} bias {{%[a-z_0-9]+}} {layer = 1 : i32, name = "qkv"} : (tensor<8x4xf32>, tensor<4x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
// ROWS: weft.attention {{%[a-z_0-9]+}} {causal, column_shift = {x = 1 : i64}, heads = 1 : i64, layer = 1 : i32, name = "attn", scale = 1.000000e+00 : f64, sequence = 4 : i64, whole_columns = 2 : i64} : (tensor<8x6xf32>) -> (tensor<8x2xf32>, tensor<8x1xf32>)
// ROWS: weft.parameter 5 {layer = 1 : i32} : tensor<2x4xf32>
// ROWS: weft.parameter 6 {layer = 1 : i32} : tensor<4xf32>
// ROWS: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "proj"} : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
// ROWS: weft.group_reduce_scatter({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 1 : i32, name = "proj.scatter_rows"} : (tensor<8x4xf32>) -> tensor<4x4xf32>
// ROWS: weft.bias_add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "proj.bias"} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
// ROWS: weft.add {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 1 : i32, name = "residual"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// ROWS: weft.parameter 0 use 1 {layer = 2 : i32} : tensor<8x4xf32>
// ROWS: weft.group_all_gather({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 2 : i32, name = "head.gather_rows"} : (tensor<4x4xf32>) -> tensor<8x4xf32>
// ROWS: weft.matmul {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 2 : i32, name = "head", transpose_b} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
// ROWS: weft.load_targets {layer = 2 : i32, name = "targets"} : tensor<8xi32>
// ROWS: weft.cross_entropy_partial {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {column_shift = {x = 8 : i64}, layer = 2 : i32, name = "loss.partial", vocabulary = 14 : i64} : (tensor<8x8xf32>, tensor<8xi32>) -> tensor<8x2xf32>
// ROWS: weft.group_all_gather({{%[a-z_0-9]+}}) over {x = array<i64>} members 2 tensor "ring" {blocking, layer = 2 : i32, name = "loss.gather"} : (tensor<8x2xf32>) -> tensor<16x2xf32>
// ROWS: weft.cross_entropy_combine {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}}, {{%[a-z_0-9]+}} {layer = 2 : i32, logits_shift = {x = 8 : i64}, logits_vocabulary = 14 : i64, loss_weight = 1.000000e-01 : f64, name = "loss"} : (tensor<16x2xf32>, tensor<8xi32>, tensor<8x8xf32>, tensor<2xf64>) -> (tensor<8xf32>, tensor<2xf64>)
