// A tensor that stage 0 makes and stage 2 reads goes directly from one to the other, and its gradient directly back.
// The values of two microbatches that are forwarded together are one message.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-apply-schedule,weft-insert-transfers))' | FileCheck %s

// CHECK-LABEL: weft.template @pipe0
// CHECK: %[[Y:.*]]:2, %{{.*}} = weft.forward @f0 stage 0 microbatch 0 width 2()
// CHECK-NEXT: weft.send %[[Y]]#0 to {pipe = 1 : i64} towards_loss stage 0 microbatch 0 width 2 :
// CHECK-NEXT: weft.send %[[Y]]#1 to {pipe = 2 : i64} towards_loss stage 0 microbatch 0 width 2 skip 1 :
// CHECK: weft.recv from {pipe = 1 : i64} from_loss stage 0 microbatch 0 :
// CHECK-NEXT: weft.recv from {pipe = 2 : i64} from_loss stage 0 microbatch 0 skip 1 :
// CHECK-NEXT: weft.backward @b0 stage 0 microbatch 0
// CHECK: weft.recv from {pipe = 2 : i64} from_loss stage 0 microbatch 1 skip 1 :
// CHECK-LABEL: weft.template @pipe2
// CHECK: weft.recv from {pipe = 1 : i64} towards_loss stage 2 microbatch 0 width 2 :
// CHECK: weft.recv from {pipe = 0 : i64} towards_loss stage 2 microbatch 0 width 2 skip 1 :
// CHECK: %[[D:.*]]:2, %{{.*}} = weft.backward @b2 stage 2 microbatch 0
// CHECK: weft.send %[[D]]#1 to {pipe = 0 : i64} from_loss stage 2 microbatch 0 skip 1 :
weft.program @p mesh<pipe = 3> stages 3 microbatches 2 schedule "own"
    attributes {skips = array<i64: 0, 2>, definition = "weft schedule 1\nranks: 3\nmicrobatches: 2\nrank 0: F0.0-1 B0.0 B0.1\nrank 1: F1.0-1 B1.0 B1.1\nrank 2: F2.0-1 B2.0 B2.1\n"} {
  weft.signature @f0 forward stage 0 [
    #weft.operand<<output>, write, <in_flight_activation, 128>>,
    #weft.operand<<output use 1>, write, <in_flight_activation, 256>>] {width = 2 : i32}
  weft.signature @b0 backward stage 0 [
    #weft.operand<<output_grad>, read, <in_flight_activation, 64>>,
    #weft.operand<<output_grad use 1>, read, <in_flight_activation, 128>>] {part = 0 : si32}
  weft.signature @b0b backward stage 0 [
    #weft.operand<<output_grad>, read, <in_flight_activation, 64>>,
    #weft.operand<<output_grad use 1>, read, <in_flight_activation, 128>>] {part = 1 : si32}
  weft.signature @f1 forward stage 1 [
    #weft.operand<<input>, read, <in_flight_activation, 128>>,
    #weft.operand<<output>, write, <in_flight_activation, 128>>] {width = 2 : i32}
  weft.signature @b1 backward stage 1 [
    #weft.operand<<output_grad>, read, <in_flight_activation, 64>>,
    #weft.operand<<input_grad>, write, <in_flight_activation, 64>>] {part = 0 : si32}
  weft.signature @b1b backward stage 1 [
    #weft.operand<<output_grad>, read, <in_flight_activation, 64>>,
    #weft.operand<<input_grad>, write, <in_flight_activation, 64>>] {part = 1 : si32}
  weft.signature @f2 forward stage 2 [
    #weft.operand<<input>, read, <in_flight_activation, 128>>,
    #weft.operand<<input use 1>, read, <in_flight_activation, 256>>] {width = 2 : i32}
  weft.signature @b2 backward stage 2 [
    #weft.operand<<input_grad>, write, <in_flight_activation, 64>>,
    #weft.operand<<input_grad use 1>, write, <in_flight_activation, 128>>] {part = 0 : si32}
  weft.signature @b2b backward stage 2 [
    #weft.operand<<input_grad>, write, <in_flight_activation, 64>>,
    #weft.operand<<input_grad use 1>, write, <in_flight_activation, 128>>] {part = 1 : si32}
}
