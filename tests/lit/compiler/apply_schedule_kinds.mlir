// Halved backwards, several stages per rank, doubled forwards, overlapped pairs and dynamic order.
// RUN: weft-opt %s --split-input-file --pass-pipeline='builtin.module(weft.program(weft-apply-schedule))' | FileCheck %s

// ZB-H1 on one rank: both halves; the second reads what the first keeps.
// CHECK-LABEL: weft.program @halves
// CHECK: %[[F:.*]], %{{.*}} = weft.forward @f0 stage 0 microbatch 0
// CHECK: %[[I:.*]], %{{.*}} = weft.backward_input @i0 stage 0 microbatch 0(%[[F]])
// CHECK: weft.backward_weight @w0 stage 0 microbatch 0(%[[I]], %[[F]])
weft.program @halves mesh<pipe = 1> stages 1 microbatches 1 schedule "zb-h1" {
  weft.signature @f0 forward stage 0 [#weft.operand<<saved>, write, <saved_activation, 64>>]
  weft.signature @i0 backward_input stage 0 [
    #weft.operand<<saved>, read, <saved_activation, 64>>,
    #weft.operand<<saved_grad>, write, <saved_gradient, 64>>]
  weft.signature @w0 backward_weight stage 0 [
    #weft.operand<<saved_grad>, read, <saved_gradient, 64>>,
    #weft.operand<<saved>, read, <saved_activation, 64>>]
}

// -----

// Two stages on one rank: the second reads what the first makes.
// CHECK-LABEL: weft.program @virtual
// CHECK: %[[Y:.*]], %{{.*}} = weft.forward @f0 stage 0 microbatch 0()
// CHECK-NEXT: weft.forward @f1 stage 1 microbatch 0(%[[Y]])
// CHECK-NEXT: %[[DX:.*]], %{{.*}} = weft.backward @b1 stage 1 microbatch 0(%[[Y]])
// CHECK-NEXT: weft.backward @b0 stage 0 microbatch 0(%[[DX]])
weft.program @virtual mesh<pipe = 1> stages 2 microbatches 1 schedule "looped-bfs"
    attributes {parameters = {virtual_stages = 2 : i64}} {
  weft.signature @f0 forward stage 0 [#weft.operand<<output>, write, <in_flight_activation, 64>>]
  weft.signature @b0 backward stage 0 [#weft.operand<<output_grad>, read, <in_flight_activation, 64>>]
  weft.signature @f1 forward stage 1 [#weft.operand<<input>, read, <in_flight_activation, 64>>]
  weft.signature @b1 backward stage 1 [
    #weft.operand<<input>, read, <in_flight_activation, 64>>,
    #weft.operand<<input_grad>, write, <in_flight_activation, 64>>]
}

// -----

// One wide forward, and a backward for each of its parts.
// CHECK-LABEL: weft.program @wide
// CHECK: %[[S:.*]], %{{.*}} = weft.forward @f0 stage 0 microbatch 0 width 2()
// CHECK: weft.backward @b00 stage 0 microbatch 0(%[[S]])
// CHECK: weft.backward @b01 stage 0 microbatch 1(%[[S]])
weft.program @wide mesh<pipe = 1> stages 1 microbatches 2 schedule "mine"
    attributes {definition = "weft schedule 1\nranks: 1\nmicrobatches: 2\nrank 0: F0.0-1 B0.0 B0.1\n"} {
  weft.signature @f0 forward stage 0 [#weft.operand<<saved>, write, <saved_activation, 128>>] {width = 2 : i32}
  weft.signature @b00 backward stage 0 [#weft.operand<<saved>, read, <saved_activation, 128>>] {part = 0 : si32}
  weft.signature @b01 backward stage 0 [#weft.operand<<saved>, read, <saved_activation, 128>>] {part = 1 : si32}
}

// -----

// Order chosen at run time: with a limit of 2, the third forward waits for the first backward.
// CHECK-LABEL: weft.program @dynamic
// CHECK-SAME: compute_order = #weft<compute_order arrival>
// CHECK-SAME: limit = 2 : i32
// CHECK-LABEL: weft.template @pipe0
// CHECK: weft.forward @f0 stage 0 microbatch 0()
// CHECK: weft.forward @f0 stage 0 microbatch 1()
// CHECK: %[[B0:.*]] = weft.backward @b0 stage 0 microbatch 0
// CHECK: weft.forward @f0 stage 0 microbatch 2() after %[[B0]]
weft.program @dynamic mesh<pipe = 2> stages 2 microbatches 3 schedule "axonn"
    attributes {parameters = {limit = 2 : i64}} {
  weft.signature @f0 forward stage 0 []
  weft.signature @b0 backward stage 0 []
  weft.signature @f1 forward stage 1 []
  weft.signature @b1 backward stage 1 []
}
