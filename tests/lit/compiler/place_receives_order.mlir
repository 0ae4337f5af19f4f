// Messages that are read in another order than they are sent, and transfer groups.
// RUN: weft-opt %s --split-input-file --pass-pipeline='builtin.module(weft.program(weft-place-receives))' | FileCheck %s

// Receives of an edge are in the order of its sends, even if the first message to be read is sent last. Then no further
// message can be received before one has been read.
// CHECK-LABEL: weft.program @loop
// CHECK-LABEL: weft.template @pipe0
// CHECK-NEXT: %[[X0:.*]], %{{.*}} = weft.recv {{.*}} stage 2 microbatch 0 :
// CHECK-NEXT: %[[X1:.*]], %{{.*}} = weft.recv {{.*}} stage 2 microbatch 1 :
// CHECK-NEXT: %[[X2:.*]], %{{.*}} = weft.recv {{.*}} stage 2 microbatch 2 :
// CHECK: weft.forward @f2 stage 2 microbatch 2(%[[X2]])
// The second forward of rank 1 waits for the first forward's send: only one send may be outstanding.
// CHECK-LABEL: weft.template @pipe1
// CHECK: %[[S0:.*]] = weft.send {{.*}} stage 1 microbatch 0
// CHECK: weft.forward @f1 stage 1 microbatch 1(%{{.*}}) after %[[S0]]
weft.program @loop mesh<pipe = 2> stages 3 microbatches 3 schedule "looped-bfs"
    attributes {send_buffers = 1 : i32, receive_buffers = 1 : i32} {
  weft.signature @f0 forward stage 0 [#weft.operand<<output>, write, <in_flight_activation, 64>>]
  weft.signature @f1 forward stage 1 [
    #weft.operand<<input>, read, <in_flight_activation, 64>>,
    #weft.operand<<output>, write, <in_flight_activation, 64>>]
  weft.signature @f2 forward stage 2 [#weft.operand<<input>, read, <in_flight_activation, 64>>]
  weft.template @pipe0 at {pipe = 0 : i64} {
    %y0, %t0 = weft.forward @f0 stage 0 microbatch 0 () : () -> (!weft.buffer<in_flight_activation, 64>)
    %s0 = weft.send %y0 to {pipe = 1 : i64} towards_loss stage 0 microbatch 0 : <in_flight_activation, 64>
    %y1, %t1 = weft.forward @f0 stage 0 microbatch 1 () : () -> (!weft.buffer<in_flight_activation, 64>)
    %s1 = weft.send %y1 to {pipe = 1 : i64} towards_loss stage 0 microbatch 1 : <in_flight_activation, 64>
    %y2, %t2 = weft.forward @f0 stage 0 microbatch 2 () : () -> (!weft.buffer<in_flight_activation, 64>)
    %s2 = weft.send %y2 to {pipe = 1 : i64} towards_loss stage 0 microbatch 2 : <in_flight_activation, 64>
    // Read in another order than sent.
    %x2, %r2 = weft.recv from {pipe = 1 : i64} towards_loss stage 2 microbatch 2 : <in_flight_activation, 64>
    %u2 = weft.forward @f2 stage 2 microbatch 2 (%x2) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %x0, %r0 = weft.recv from {pipe = 1 : i64} towards_loss stage 2 microbatch 0 : <in_flight_activation, 64>
    %u0 = weft.forward @f2 stage 2 microbatch 0 (%x0) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %x1, %r1 = weft.recv from {pipe = 1 : i64} towards_loss stage 2 microbatch 1 : <in_flight_activation, 64>
    %u1 = weft.forward @f2 stage 2 microbatch 1 (%x1) : (!weft.buffer<in_flight_activation, 64>) -> ()
  }
  weft.template @pipe1 at {pipe = 1 : i64} {
    %x0, %r0 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 64>
    %y0, %t0 = weft.forward @f1 stage 1 microbatch 0 (%x0)
        : (!weft.buffer<in_flight_activation, 64>) -> (!weft.buffer<in_flight_activation, 64>)
    %s0 = weft.send %y0 to {pipe = 0 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 64>
    %x1, %r1 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 1 : <in_flight_activation, 64>
    %y1, %t1 = weft.forward @f1 stage 1 microbatch 1 (%x1)
        : (!weft.buffer<in_flight_activation, 64>) -> (!weft.buffer<in_flight_activation, 64>)
    %s1 = weft.send %y1 to {pipe = 0 : i64} towards_loss stage 1 microbatch 1 : <in_flight_activation, 64>
    %x2, %r2 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 2 : <in_flight_activation, 64>
    %y2, %t2 = weft.forward @f1 stage 1 microbatch 2 (%x2)
        : (!weft.buffer<in_flight_activation, 64>) -> (!weft.buffer<in_flight_activation, 64>)
    %s2 = weft.send %y2 to {pipe = 0 : i64} towards_loss stage 1 microbatch 2 : <in_flight_activation, 64>
  }
}

// -----

// Deferred: rank 0 receives after the neighboring send. Neighboring transfers in both directions between two ranks form
// a group.
// CHECK-LABEL: weft.program @groups
// CHECK-LABEL: weft.template @pipe0
// CHECK: weft.send {{.*}} towards_loss stage 0 microbatch 0 :
// CHECK: weft.send {{.*}} towards_loss stage 0 microbatch 1 group 1 :
// CHECK-NEXT: weft.recv {{.*}} from_loss stage 0 microbatch 0 group 1 after
// CHECK-LABEL: weft.template @pipe1
// CHECK: weft.recv {{.*}} towards_loss stage 1 microbatch 0 :
// CHECK: weft.send {{.*}} from_loss stage 1 microbatch 0 group 1
weft.program @groups mesh<pipe = 2> stages 2 microbatches 2 schedule "1f1b"
    attributes {transfer_placement = #weft<transfer_placement deferred>, group_transfers,
                forward_cost = 2 : i64, backward_cost = 2 : i64} {
  weft.signature @f0 forward stage 0 [#weft.operand<<output>, write, <in_flight_activation, 64>>]
  weft.signature @b0 backward stage 0 [#weft.operand<<output_grad>, read, <in_flight_activation, 64>>]
  weft.signature @f1 forward stage 1 [#weft.operand<<input>, read, <in_flight_activation, 64>>]
  weft.signature @b1 backward stage 1 [#weft.operand<<input_grad>, write, <in_flight_activation, 64>>]
  weft.template @pipe0 at {pipe = 0 : i64} {
    %y0, %t0 = weft.forward @f0 stage 0 microbatch 0 () : () -> (!weft.buffer<in_flight_activation, 64>)
    %s0 = weft.send %y0 to {pipe = 1 : i64} towards_loss stage 0 microbatch 0 : <in_flight_activation, 64>
    %y1, %t1 = weft.forward @f0 stage 0 microbatch 1 () : () -> (!weft.buffer<in_flight_activation, 64>)
    %s1 = weft.send %y1 to {pipe = 1 : i64} towards_loss stage 0 microbatch 1 : <in_flight_activation, 64>
    %d0, %r0 = weft.recv from {pipe = 1 : i64} from_loss stage 0 microbatch 0 : <in_flight_activation, 64>
    %u0 = weft.backward @b0 stage 0 microbatch 0 (%d0) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %d1, %r1 = weft.recv from {pipe = 1 : i64} from_loss stage 0 microbatch 1 : <in_flight_activation, 64>
    %u1 = weft.backward @b0 stage 0 microbatch 1 (%d1) : (!weft.buffer<in_flight_activation, 64>) -> ()
  }
  weft.template @pipe1 at {pipe = 1 : i64} {
    %x0, %r0 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 64>
    %t0 = weft.forward @f1 stage 1 microbatch 0 (%x0) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %d0, %u0 = weft.backward @b1 stage 1 microbatch 0 () : () -> (!weft.buffer<in_flight_activation, 64>)
    %s0 = weft.send %d0 to {pipe = 0 : i64} from_loss stage 1 microbatch 0 : <in_flight_activation, 64>
    %x1, %r1 = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 1 : <in_flight_activation, 64>
    %t1 = weft.forward @f1 stage 1 microbatch 1 (%x1) : (!weft.buffer<in_flight_activation, 64>) -> ()
    %d1, %u1 = weft.backward @b1 stage 1 microbatch 1 () : () -> (!weft.buffer<in_flight_activation, 64>)
    %s1 = weft.send %d1 to {pipe = 0 : i64} from_loss stage 1 microbatch 1 : <in_flight_activation, 64>
  }
}
