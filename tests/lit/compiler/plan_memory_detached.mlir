// Backwards with detached reduce-scatters use two buffers in turn. Each backward waits for the reduce-scatters of the
// backward before the previous one. All reduce-scatters add to the gradient on one stream. The optimizer waits for
// those that no action has waited for.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-plan-memory))' | FileCheck %s

// CHECK-LABEL: weft.template @all
// CHECK: %[[B0:.*]] = weft.backward @b stage 0 microbatch 0(%[[G:.*]], %[[D0:.*]]) :
// CHECK-NEXT: %[[ALL0:.*]] = weft.detached %[[B0]]
// CHECK: %[[B1:.*]] = weft.backward @b stage 0 microbatch 1(%[[G]], %[[D1:.*]]) after %[[B0]] :
// CHECK-NEXT: %[[ALL1:.*]] = weft.detached %[[B1]]
// CHECK: %[[B2:.*]] = weft.backward @b stage 0 microbatch 2(%[[G]], %[[D0]]) after %[[ALL0]], %[[B1]] :
// CHECK-NEXT: %[[ALL2:.*]] = weft.detached %[[B2]]
// CHECK: %[[SYNC:.*]] = weft.all_reduce(%[[G]]) into(%[[G]]) over {data = array<i64>} gradient_sync "ring" stage 0 after %[[ALL1]], %[[ALL2]] :
// CHECK: %[[OPT:.*]] = weft.optimizer_step @o stage 0(%[[G]]) after %[[SYNC]] :
// CHECK: weft.repeat_after %[[B0]] waits %[[OPT]]
// CHECK-NOT: weft.repeat_after
weft.program @p mesh<data = 2, z = 2> stages 1 microbatches 3 schedule "gpipe" {
  weft.signature @b backward stage 0 [
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64> detached 1>,
    #weft.operand<<deferred>, write, <workspace, 128> detached 2>] {collectives}
  weft.signature @o optimizer_step stage 0 [#weft.operand<<grad tensor 0>, read_write, <gradient, 64>>] {rank = 0 : si32}
  weft.template @all at {} {
    %g = weft.persistent <grad tensor 0> : <gradient, 64>
    %d0 = weft.persistent <deferred> : <workspace, 128>
    %d1 = weft.persistent <deferred use 1> : <workspace, 128>
    %t0 = weft.backward @b stage 0 microbatch 0 (%g, %d0) : (!weft.buffer<gradient, 64>, !weft.buffer<workspace, 128>) -> ()
    %t1 = weft.backward @b stage 0 microbatch 1 (%g, %d1) : (!weft.buffer<gradient, 64>, !weft.buffer<workspace, 128>) -> ()
    %t2 = weft.backward @b stage 0 microbatch 2 (%g, %d0) : (!weft.buffer<gradient, 64>, !weft.buffer<workspace, 128>) -> ()
    %t3 = weft.all_reduce (%g) into (%g) over {data = array<i64>} gradient_sync "ring" stage 0
        : (!weft.buffer<gradient, 64>) -> (!weft.buffer<gradient, 64>)
    %t4 = weft.optimizer_step @o stage 0 (%g) : (!weft.buffer<gradient, 64>) -> ()
  }
}
