// One buffer in addition to the one in use: the third receive waits for the reader of the first and follows it in the
// list.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-place-receives))' | FileCheck %s

// CHECK-LABEL: weft.template @pipe1
// CHECK-NEXT: %[[X0:.*]], %{{.*}} = weft.recv {{.*}} microbatch 0 :
// CHECK-NEXT: %[[X1:.*]], %{{.*}} = weft.recv {{.*}} microbatch 1 :
// CHECK-NEXT: %[[F0:.*]] = weft.forward @f1 stage 1 microbatch 0(%[[X0]])
// CHECK-NEXT: %[[X2:.*]], %{{.*}} = weft.recv {{.*}} microbatch 2 after %[[F0]]
// CHECK-NEXT: %[[F1:.*]] = weft.forward @f1 stage 1 microbatch 1(%[[X1]])
// CHECK-NEXT: %[[X3:.*]], %{{.*}} = weft.recv {{.*}} microbatch 3 after %[[F1]]
// CHECK-NEXT: weft.forward @f1 stage 1 microbatch 2(%[[X2]])
// CHECK-NEXT: weft.forward @f1 stage 1 microbatch 3(%[[X3]])
weft.program @p mesh<pipe = 2> stages 2 microbatches 4 schedule "gpipe" {
  weft.signature @f1 forward stage 1 [#weft.operand<<input>, read, <in_flight_activation, 64>>]
  weft.template @pipe1 at {pipe = 1 : i64} {
    %x0, %r0 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 64>
    %t0 = weft.forward @f1 stage 1 microbatch 0 (%x0) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %x1, %r1 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 1 : <in_flight_activation, 64>
    %t1 = weft.forward @f1 stage 1 microbatch 1 (%x1) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %x2, %r2 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 2 : <in_flight_activation, 64>
    %t2 = weft.forward @f1 stage 1 microbatch 2 (%x2) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %x3, %r3 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 3 : <in_flight_activation, 64>
    %t3 = weft.forward @f1 stage 1 microbatch 3 (%x3) : (!weft.buffer<in_flight_activation, 64>) -> ()
  }
}
