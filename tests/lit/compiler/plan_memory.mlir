// Two send buffers: the third forward waits for the first send and reuses its bytes.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-place-receives,weft-plan-memory))' | FileCheck %s

// The parameter has bytes 0 to 255; two outputs of 256 bytes each follow.
// CHECK-LABEL: weft.template @pipe0 at {pipe = 0 : i64} attributes {arena_bytes = 768 : i64, persistent_bytes = 256 : i64}
// CHECK: %[[W:.*]] = weft.persistent <param tensor 0> {offset = 0 : i64}
// CHECK: %[[Y0:.*]], %[[F0:.*]] = weft.forward @f0 stage 0 microbatch 0(%[[W]]) {offsets = array<i64: 256>}
// CHECK: %[[S0:.*]] = weft.send %[[Y0]]
// CHECK-NEXT: weft.release %[[Y0]] with %[[S0]]
// CHECK: %[[Y1:.*]], %{{.*}} = weft.forward @f0 stage 0 microbatch 1(%[[W]]) {offsets = array<i64: 512>}
// CHECK: %[[S1:.*]] = weft.send %[[Y1]]
// CHECK: %[[Y2:.*]], %{{.*}} = weft.forward @f0 stage 0 microbatch 2(%[[W]]) after %[[S0]] {offsets = array<i64: 256>}
// CHECK: %[[S2:.*]] = weft.send %[[Y2]]
// In this repetition, nothing waits for the last send.
// CHECK: weft.repeat_after %[[F0]] waits %[[S2]]

// The receive of one repetition does not overtake the compute of the previous one. An all-reduce writes a parameter
// that compute reads, so both wait for each other.
// CHECK-LABEL: weft.template @pipe1
// CHECK: %[[X:.*]], %[[R:.*]] = weft.recv {{.*}} {offsets = array<i64: 256>}
// CHECK: %[[T:.*]] = weft.forward @f1 stage 1 microbatch 0(%[[X]], %[[V:.*]]) :
// CHECK-NEXT: weft.release %[[X]] with %[[T]]
// CHECK: %[[A:.*]] = weft.all_reduce(%[[V]]) into(%[[V]]) {{.*}} after %[[T]]
// CHECK-DAG: weft.repeat_after %[[R]] waits %[[T]]
// CHECK-DAG: weft.repeat_after %[[T]] waits %[[A]]
weft.program @p mesh<pipe = 2> stages 2 microbatches 3 schedule "gpipe" {
  weft.signature @f0 forward stage 0 [
    #weft.operand<<output>, write, <in_flight_activation, 256>>,
    #weft.operand<<param tensor 0>, read, <parameter, 64>>]
  weft.signature @f1 forward stage 1 [
    #weft.operand<<input>, read, <in_flight_activation, 256>>,
    #weft.operand<<param tensor 0>, read, <parameter, 64>>]
  weft.template @pipe0 at {pipe = 0 : i64} {
    %w = weft.persistent <param tensor 0> : <parameter, 64>
    %y0, %t0 = weft.forward @f0 stage 0 microbatch 0 (%w)
        : (!weft.buffer<parameter, 64>) -> (!weft.buffer<in_flight_activation, 256>)
    %s0 = weft.send %y0 to {pipe = 1 : i64} towards_loss stage 0 microbatch 0 : <in_flight_activation, 256>
    %y1, %t1 = weft.forward @f0 stage 0 microbatch 1 (%w)
        : (!weft.buffer<parameter, 64>) -> (!weft.buffer<in_flight_activation, 256>)
    %s1 = weft.send %y1 to {pipe = 1 : i64} towards_loss stage 0 microbatch 1 : <in_flight_activation, 256>
    %y2, %t2 = weft.forward @f0 stage 0 microbatch 2 (%w)
        : (!weft.buffer<parameter, 64>) -> (!weft.buffer<in_flight_activation, 256>)
    %s2 = weft.send %y2 to {pipe = 1 : i64} towards_loss stage 0 microbatch 2 : <in_flight_activation, 256>
  }
  weft.template @pipe1 at {pipe = 1 : i64} {
    %w = weft.persistent <param tensor 0> : <parameter, 64>
    %x, %r = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 256>
    %t = weft.forward @f1 stage 1 microbatch 0 (%x, %w)
        : (!weft.buffer<in_flight_activation, 256>, !weft.buffer<parameter, 64>) -> ()
    %a = weft.all_reduce (%w) into (%w) over {pipe = array<i64: 1>} gradient_sync "ring" stage 1
        : (!weft.buffer<parameter, 64>) -> (!weft.buffer<parameter, 64>)
  }
}
