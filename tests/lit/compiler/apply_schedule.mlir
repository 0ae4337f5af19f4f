// 1F1B on two ranks: the first rank runs one more forward before its first backward. A value that another rank makes is
// a boundary.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-apply-schedule))' | FileCheck %s
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-apply-schedule,weft-insert-transfers))' | FileCheck %s --check-prefix=SEND

// CHECK-LABEL: weft.template @pipe0 at {pipe = 0 : i64}
// CHECK: %[[W:.*]] = weft.persistent <param tensor 0>
// CHECK: %[[G:.*]] = weft.persistent <grad tensor 0>
// CHECK: %[[F0:.*]]:2, %{{.*}} = weft.forward @f0 stage 0 microbatch 0(%[[W]])
// CHECK: %[[F1:.*]]:2, %{{.*}} = weft.forward @f0 stage 0 microbatch 1(%[[W]])
// CHECK: %[[DY0:.*]] = weft.boundary from_loss stage 0 microbatch 0
// CHECK: weft.backward @b0 stage 0 microbatch 0(%[[DY0]], %[[F0]]#1, %[[G]])
// CHECK: %[[DY1:.*]] = weft.boundary from_loss stage 0 microbatch 1
// CHECK: weft.backward @b0 stage 0 microbatch 1(%[[DY1]], %[[F1]]#1, %[[G]])
// CHECK-LABEL: weft.template @pipe1 at {pipe = 1 : i64}
// CHECK: %[[X0:.*]] = weft.boundary towards_loss stage 1 microbatch 0
// CHECK: weft.forward @f1 stage 1 microbatch 0(%[[X0]])
// The backward reads the same boundary tensor as the forward.
// CHECK: weft.backward @b1 stage 1 microbatch 0(%[[X0]])
// CHECK: weft.forward @f1 stage 1 microbatch 1
// CHECK: weft.backward @b1 stage 1 microbatch 1

// SEND-LABEL: weft.template @pipe0
// SEND: %[[F0:.*]]:2, %{{.*}} = weft.forward @f0 stage 0 microbatch 0
// SEND-NEXT: weft.send %[[F0]]#0 to {pipe = 1 : i64} towards_loss stage 0 microbatch 0
// SEND: %[[F1:.*]]:2, %{{.*}} = weft.forward @f0 stage 0 microbatch 1
// SEND-NEXT: weft.send %[[F1]]#0 to {pipe = 1 : i64} towards_loss stage 0 microbatch 1
// SEND-NEXT: %[[D0:.*]], %{{.*}} = weft.recv from {pipe = 1 : i64} from_loss stage 0 microbatch 0
// SEND-NEXT: weft.backward @b0 stage 0 microbatch 0(%[[D0]]
// SEND-LABEL: weft.template @pipe1
// SEND: %[[X0:.*]], %{{.*}} = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 0
// SEND-NEXT: weft.forward @f1 stage 1 microbatch 0(%[[X0]])
// SEND-NEXT: %[[DX0:.*]], %{{.*}} = weft.backward @b1 stage 1 microbatch 0(%[[X0]])
// SEND-NEXT: weft.send %[[DX0]] to {pipe = 0 : i64} from_loss stage 1 microbatch 0
// SEND-NOT: weft.boundary
weft.program @p mesh<pipe = 2> stages 2 microbatches 2 schedule "1f1b" {
  weft.signature @f0 forward stage 0 [
    #weft.operand<<output>, write, <in_flight_activation, 64, tensor<4x4xf32>>>,
    #weft.operand<<saved>, write, <saved_activation, 128>>,
    #weft.operand<<param tensor 0>, read, <parameter, 64, tensor<4x4xf32>>>]
  weft.signature @b0 backward stage 0 [
    #weft.operand<<output_grad>, read, <in_flight_activation, 64, tensor<4x4xf32>>>,
    #weft.operand<<saved>, read, <saved_activation, 128>>,
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64, tensor<4x4xf32>>>]
  weft.signature @f1 forward stage 1 [#weft.operand<<input>, read, <in_flight_activation, 64, tensor<4x4xf32>>>]
  weft.signature @b1 backward stage 1 [
    #weft.operand<<input>, read, <in_flight_activation, 64, tensor<4x4xf32>>>,
    #weft.operand<<input_grad>, write, <in_flight_activation, 64, tensor<4x4xf32>>>]
}
