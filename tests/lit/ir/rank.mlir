// The rank level prints as it was read.
// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK: weft.program @p mesh<data = 2, pipe = 2> stages 2 microbatches 1 schedule "1f1b"
weft.program @p mesh<data = 2, pipe = 2> stages 2 microbatches 1 schedule "1f1b" attributes {clip, send_buffers = 3 : i32} {
  // CHECK: weft.signature @f forward stage 0 [#weft.operand<<output>, write, <in_flight_activation, 64, tensor<4x4xf32>>>, #weft.operand<<param tensor 0>, read, <parameter, 64, tensor<4x4xf32>>>, #weft.operand<<workspace>, write, <workspace, 128>>]
  weft.signature @f forward stage 0 [
    #weft.operand<<output>, write, !weft.buffer<in_flight_activation, 64, tensor<4x4xf32>>>,
    #weft.operand<<param tensor 0>, read, !weft.buffer<parameter, 64, tensor<4x4xf32>>>,
    #weft.operand<<workspace>, write, !weft.buffer<workspace, 128>>]
  // CHECK: weft.template @pipe0 at {pipe = 0 : i64} {
  weft.template @pipe0 at {pipe = 0 : i64} {
    // CHECK: %[[W:.*]] = weft.persistent <param tensor 0> {offset = 0 : i64} : <parameter, 64, tensor<4x4xf32>>
    %w = weft.persistent <param tensor 0> {offset = 0 : i64} : <parameter, 64, tensor<4x4xf32>>
    // CHECK: %[[OUT:.*]]:2, %[[DONE:.*]] = weft.forward @f stage 0 microbatch 0(%[[W]])
    %y, %ws, %t0 = weft.forward @f stage 0 microbatch 0 (%w) {offsets = array<i64: 256, 512>}
        : (!weft.buffer<parameter, 64, tensor<4x4xf32>>)
        -> (!weft.buffer<in_flight_activation, 64, tensor<4x4xf32>>, !weft.buffer<workspace, 128>)
    // CHECK: weft.release %[[OUT]]#1 with %[[DONE]] : <workspace, 128>
    weft.release %ws with %t0 : <workspace, 128>
    // CHECK: %[[SENT:.*]] = weft.send %[[OUT]]#0 to {pipe = 1 : i64} towards_loss stage 0 microbatch 0
    %t1 = weft.send %y to {pipe = 1 : i64} towards_loss stage 0 microbatch 0 : <in_flight_activation, 64, tensor<4x4xf32>>
    // CHECK: weft.recv from {pipe = 1 : i64} from_loss stage 0 microbatch 0 after %[[SENT]]
    %g, %t2 = weft.recv from {pipe = 1 : i64} from_loss stage 0 microbatch 0 after %t1 {offsets = array<i64: 768>}
        : <in_flight_activation, 64, tensor<4x4xf32>>
    // CHECK: weft.all_reduce(%[[W]]) into(%[[W]]) over {data = array<i64>} gradient_sync "ring" stage 0
    %t3 = weft.all_reduce (%w) into (%w) over {data = array<i64>} gradient_sync "ring" stage 0
        : (!weft.buffer<parameter, 64, tensor<4x4xf32>>) -> (!weft.buffer<parameter, 64, tensor<4x4xf32>>)
    // CHECK: weft.repeat_after %[[DONE]] waits
    weft.repeat_after %t0 waits %t3
    // CHECK: %[[ALL:.*]] = weft.detached %[[DONE]]
    %t4 = weft.detached %t0
    // CHECK: weft.reduce_scatter(%[[W]]) into(%{{.*}}) over {data = {block = 2 : i64}} scatter_gradients "ring" stage 0 after %[[ALL]]
    %h = weft.persistent <master tensor 0> : <optimizer, 32, tensor<8xf32>>
    %t5 = weft.reduce_scatter (%w) into (%h) over {data = {block = 2 : i64}} scatter_gradients "ring" stage 0 after %t4
        : (!weft.buffer<parameter, 64, tensor<4x4xf32>>) -> (!weft.buffer<optimizer, 32, tensor<8xf32>>)
    // CHECK: weft.all_gather(%{{.*}}) into(%[[W]]) over {data = {stride = 1 : i64}} gather_weights "ring" stage 0
    %t6 = weft.all_gather (%h) into (%w) over {data = {stride = 1 : i64}} gather_weights "ring" stage 0
        : (!weft.buffer<optimizer, 32, tensor<8xf32>>) -> (!weft.buffer<parameter, 64, tensor<4x4xf32>>)
  }
  // CHECK: weft.template @pipe1 at {pipe = 1 : i64} {
  weft.template @pipe1 at {pipe = 1 : i64} {
    // CHECK: weft.boundary towards_loss stage 1 microbatch 0
    %x = weft.boundary towards_loss stage 1 microbatch 0 : <in_flight_activation, 64, tensor<4x4xf32>>
  }
}
