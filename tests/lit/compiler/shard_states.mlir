// ZeRO on two replicas. Stage 1 shards optimizer states, stage 2 also gradients, stage 3 also parameters. One
// collective gathers or scatters all tensors of a layer.
// RUN: weft-opt %s --weft-shard-states="stage=1 members=2" | FileCheck %s --check-prefix=ONE
// RUN: weft-opt %s --weft-shard-states="stage=2 members=2" | FileCheck %s --check-prefix=TWO
// RUN: weft-opt %s --weft-shard-states="stage=3 members=2 block=2" | FileCheck %s --check-prefix=THREE
// RUN: weft-opt %s --weft-shard-states="stage=3 members=2 kept-layers=1,2" | FileCheck %s --check-prefix=KEPT
// RUN: weft-opt %s --weft-shard-states="stage=1 members=3" | FileCheck %s --check-prefix=ROOM
// RUN: weft-opt %s --weft-shard-states="stage=3 members=3 block=3" | FileCheck %s --check-prefix=ROUNDED
// RUN: weft-opt %s --weft-shard-states="stage=3 members=7" | FileCheck %s --check-prefix=FEW
// RUN: weft-opt %s --weft-shard-states="stage=3" | FileCheck %s --check-prefix=WHOLE

// ONE: weft.tensor @wte index 0 shape [15, 4] : tensor<16x4xbf16> {state_ranges = ["data"], state_type = tensor<32xbf16>, uses = 2 : i32}
// A weight that z shards: a part of its part.
// ONE: weft.tensor @w index 1 shape [4, 4] : tensor<8xbf16> {grad_ranges = ["z"], padded = array<i64: 4, 4>, ranges = ["z"], state_ranges = ["z", "data"], state_type = tensor<4xbf16>}
// ONE: weft.tensor @gamma index 2 shape [4] : tensor<4xbf16> {state_ranges = ["data"], state_type = tensor<2xbf16>}
// ONE-NOT: members 2 "ring"

// TWO: weft.tensor @wte {{.*}} : tensor<16x4xbf16> {grad_ranges = ["data"], grad_type = tensor<32xbf16>, state_ranges = ["data"], state_type = tensor<32xbf16>
// TWO: weft.tensor @w {{.*}} : tensor<8xbf16> {grad_ranges = ["z", "data"], grad_type = tensor<4xbf16>
// TWO: weft.graph
// TWO: %[[WTE:.*]] = weft.parameter 0 {layer = 0 : i32} : tensor<16x4xbf16>
// TWO-NEXT: %[[T:.*]] = weft.cut_gradients(%[[WTE]]) over {data = array<i64>} members 2 "ring" {layer = 0 : i32, name = "layer0.zero"}
// TWO-NEXT: weft.embedding %{{.*}}, %[[T]]
// TWO: %[[GAMMA:.*]] = weft.parameter 2
// TWO-NEXT: %[[W:.*]] = weft.parameter 1
// TWO-NEXT: %[[BOTH:.*]]:2 = weft.cut_gradients(%[[GAMMA]], %[[W]]) over {data = array<i64>} members 2 "ring" {layer = 1 : i32, name = "layer1.zero"} : (tensor<4xbf16>, tensor<8xbf16>) -> (tensor<4xbf16>, tensor<8xbf16>)
// TWO: weft.rms_norm %{{.*}}, %[[BOTH]]#0
// TWO: weft.group_all_gather(%[[BOTH]]#1) over {z = array<i64>}

// THREE: weft.tensor @wte index 0 shape [15, 4] : tensor<32xbf16> {data_block = 2 : i64, grad_ranges = ["data"], padded = array<i64: 16, 4>, ranges = ["data"], state_ranges = ["data"], uses = 2 : i32}
// THREE: weft.tensor @w index 1 shape [4, 4] : tensor<4xbf16> {data_block = 2 : i64, grad_ranges = ["z", "data"], padded = array<i64: 4, 4>, ranges = ["z", "data"], state_ranges = ["z", "data"]}
// THREE: weft.tensor @gamma index 2 shape [4] : tensor<2xbf16> {data_block = 2 : i64, grad_ranges = ["data"], padded = array<i64: 4>
// THREE: weft.graph
// THREE: %[[GAMMA:.*]] = weft.parameter 2 {layer = 1 : i32} : tensor<2xbf16>
// THREE-NEXT: %[[W:.*]] = weft.parameter 1 {layer = 1 : i32} : tensor<4xbf16>
// THREE-NEXT: %[[BOTH:.*]]:2 = weft.group_all_gather(%[[GAMMA]], %[[W]]) over {data = {block = 2 : i64}} members 2 gather_weights "ring" {blocking, layer = 1 : i32, name = "layer1.zero"} : (tensor<2xbf16>, tensor<4xbf16>) -> (tensor<4xbf16>, tensor<8xbf16>)
// THREE: weft.rms_norm %{{.*}}, %[[BOTH]]#0
// THREE: weft.group_all_gather(%[[BOTH]]#1) over {z = array<i64>} members 2

// Layer 1 keeps its parameters, as with stage 2. Layer 2 would keep the table, but shares it with layer 0, which does
// not keep it.
// KEPT: weft.tensor @wte {{.*}} : tensor<32xbf16> {grad_ranges = ["data"], padded = array<i64: 16, 4>, ranges = ["data"]
// KEPT: weft.tensor @w {{.*}} : tensor<8xbf16> {grad_ranges = ["z", "data"], grad_type = tensor<4xbf16>, {{.*}}state_type = tensor<4xbf16>}
// KEPT: weft.graph
// KEPT: weft.group_all_gather({{.*}}) over {data = array<i64>} members 2 gather_weights "ring" {blocking, layer = 0 : i32
// KEPT: %[[BOTH:.*]]:2 = weft.cut_gradients({{.*}}) over {data = array<i64>} members 2 "ring" {layer = 1 : i32, name = "layer1.zero"} : (tensor<4xbf16>, tensor<8xbf16>)
// KEPT: weft.rms_norm %{{.*}}, %[[BOTH]]#0
// KEPT: weft.group_all_gather({{.*}}) over {data = array<i64>} members 2 gather_weights "ring" {blocking, layer = 2 : i32

// Three parts of 64 elements have 22 elements each, of 8 elements 3, of a vector of 4 elements 2.
// ROOM: weft.tensor @wte {{.*}} : tensor<16x4xbf16> {room = 66 : i64, state_ranges = ["data"], state_type = tensor<22xbf16>
// ROOM: weft.tensor @w {{.*}} : tensor<8xbf16> {{.*}}room = 9 : i64, state_ranges = ["z", "data"], state_type = tensor<3xbf16>}
// ROOM: weft.tensor @gamma index 2 shape [4] : tensor<4xbf16> {room = 6 : i64, state_ranges = ["data"], state_type = tensor<2xbf16>}
// ROUNDED: weft.tensor @wte index 0 shape [15, 4] : tensor<22xbf16> {data_block = 3 : i64, grad_ranges = ["data"], padded = array<i64: 16, 4>
// ROUNDED: weft.tensor @gamma index 2 shape [4] : tensor<2xbf16>
// ROUNDED: weft.group_all_gather({{.*}}) over {data = {block = 3 : i64}} members 3 gather_weights {{.*}} : (tensor<22xbf16>) -> tensor<16x4xbf16>
// ROUNDED: weft.group_all_gather({{.*}}) over {data = {block = 3 : i64}} members 3 gather_weights {{.*}} : (tensor<2xbf16>, tensor<3xbf16>) -> (tensor<4xbf16>, tensor<8xbf16>)

// Four elements over seven replicas: the last three replicas hold only padding.
// FEW: weft.tensor @gamma index 2 shape [4] : tensor<1xbf16> {grad_ranges = ["data"], padded = array<i64: 4>, ranges = ["data"], state_ranges = ["data"]}
// FEW: weft.group_all_gather({{.*}}) over {data = array<i64>} members 7 gather_weights {{.*}} : (tensor<1xbf16>, tensor<2xbf16>) -> (tensor<4xbf16>, tensor<8xbf16>)

// WHOLE-NOT: members 1
// WHOLE-NOT: "data"
module {
  weft.tensor @wte index 0 shape [15, 4] : tensor<16x4xbf16> {uses = 2 : i32}
  weft.tensor @w index 1 shape [4, 4] : tensor<8xbf16> {grad_ranges = ["z"], padded = array<i64: 4, 4>, ranges = ["z"], state_ranges = ["z"]}
  weft.tensor @gamma index 2 shape [4] : tensor<4xbf16>
  weft.graph @tiny {
  ^bb0(%losses: tensor<2xf64>):
    %tokens = weft.load_tokens {layer = 0 : i32} : tensor<6xi32>
    %wte = weft.parameter 0 {layer = 0 : i32} : tensor<16x4xbf16>
    %x = weft.embedding %tokens, %wte {layer = 0 : i32} : (tensor<6xi32>, tensor<16x4xbf16>) -> tensor<6x4xbf16>
    %gamma = weft.parameter 2 {layer = 1 : i32} : tensor<4xbf16>
    %n, %r = weft.rms_norm %x, %gamma {epsilon = 1.0e-5 : f64, layer = 1 : i32} : (tensor<6x4xbf16>, tensor<4xbf16>) -> (tensor<6x4xbf16>, tensor<6xf32>)
    %part = weft.parameter 1 {layer = 1 : i32} : tensor<8xbf16>
    %w = weft.group_all_gather (%part) over {z = array<i64>} members 2 gather_weights "ring" {blocking, layer = 1 : i32} : (tensor<8xbf16>) -> tensor<4x4xbf16>
    %y = weft.matmul %n, %w {layer = 1 : i32} : (tensor<6x4xbf16>, tensor<4x4xbf16>) -> tensor<6x4xbf16>
    %head = weft.parameter 0 use 1 {layer = 2 : i32} : tensor<16x4xbf16>
    %logits = weft.matmul %y, %head {layer = 2 : i32, transpose_b} : (tensor<6x4xbf16>, tensor<16x4xbf16>) -> tensor<6x16xbf16>
    %targets = weft.load_targets {layer = 2 : i32} : tensor<6xi32>
    %lse, %new = weft.cross_entropy %logits, %targets, %losses {layer = 2 : i32, loss_weight = 0.1 : f64, vocabulary = 15 : i64} : (tensor<6x16xbf16>, tensor<6xi32>, tensor<2xf64>) -> (tensor<6xf32>, tensor<2xf64>)
    weft.yield %new : tensor<2xf64>
  }
}
