// Two lanes put both stages on both ranks. Tensor 1 has replicas. Both stages use tensor 0, so every rank holds both of
// its uses.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-synchronize-gradients))' | FileCheck %s
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-synchronize-gradients))' | FileCheck %s --check-prefix=SECOND

// The rank computes stage 0 first. With lazy synchronization, the stage's sum waits for the last of all backwards.
// CHECK-LABEL: weft.template @pipe0
// CHECK-DAG: %[[G0:.*]] = weft.persistent <grad tensor 0> :
// CHECK-DAG: %[[H0:.*]] = weft.persistent <grad tensor 0 use 1> :
// CHECK-DAG: %[[G1:.*]] = weft.persistent <grad tensor 1> :
// CHECK: weft.backward @b0 stage 0 microbatch 0
// CHECK-NEXT: %[[T:.*]] = weft.backward @b1 stage 1 microbatch 1 lane 1
// CHECK-NEXT: weft.all_reduce(%[[G1]]) into(%[[G1]]) over {data = array<i64>, pipe = array<i64: 0, 1>} gradient_sync "ring" stage 0 after %[[T]]
// CHECK-NEXT: weft.all_reduce(%[[G0]]) into(%[[G0]]) over {data = array<i64>, pipe = array<i64: 0, 1>} tied_sync "ring" stage 0
// CHECK-NEXT: weft.all_reduce(%[[H0]]) into(%[[H0]]) over {data = array<i64>, pipe = array<i64: 0, 1>} tied_sync "ring" stage 1
// CHECK-NEXT: weft.optimizer_step @o0 stage 0

// Here the sum follows its own stage's backward, which is the last one.
// SECOND-LABEL: weft.template @pipe1
// SECOND: weft.backward @b0 stage 0 microbatch 1 lane 1
// SECOND-NEXT: weft.all_reduce{{.*}} gradient_sync "ring" stage 0 :
// SECOND-NEXT: weft.all_reduce{{.*}} tied_sync "ring" stage 0 :
// SECOND-NEXT: weft.all_reduce{{.*}} tied_sync "ring" stage 1 :
weft.program @p mesh<data = 2, pipe = 2> stages 2 microbatches 2 schedule "chimera"
    attributes {gradient_sync = #weft<sync_moment lazy>} {
  weft.signature @b0 backward stage 0 [
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64>>,
    #weft.operand<<grad tensor 1>, read_write, <gradient, 64>>]
  weft.signature @b1 backward stage 1 [#weft.operand<<grad tensor 0 use 1>, read_write, <gradient, 64>>]
  weft.signature @o0 optimizer_step stage 0 [
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64>>,
    #weft.operand<<grad tensor 0 use 1>, read_write, <gradient, 64>>,
    #weft.operand<<grad tensor 1>, read_write, <gradient, 64>>] {rank = 0 : si32}
  weft.signature @o1 optimizer_step stage 0 [
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64>>,
    #weft.operand<<grad tensor 0 use 1>, read_write, <gradient, 64>>,
    #weft.operand<<grad tensor 1>, read_write, <gradient, 64>>] {rank = 1 : si32}
  weft.template @pipe0 at {pipe = 0 : i64} {
    %g0 = weft.persistent <grad tensor 0> : <gradient, 64>
    %g1 = weft.persistent <grad tensor 1> : <gradient, 64>
    %h0 = weft.persistent <grad tensor 0 use 1> : <gradient, 64>
    %t0 = weft.backward @b0 stage 0 microbatch 0 (%g0, %g1)
        : (!weft.buffer<gradient, 64>, !weft.buffer<gradient, 64>) -> ()
    %t1 = weft.backward @b1 stage 1 microbatch 1 lane 1 (%h0) : (!weft.buffer<gradient, 64>) -> ()
  }
  weft.template @pipe1 at {pipe = 1 : i64} {
    %g0 = weft.persistent <grad tensor 0> : <gradient, 64>
    %g1 = weft.persistent <grad tensor 1> : <gradient, 64>
    %h0 = weft.persistent <grad tensor 0 use 1> : <gradient, 64>
    %t1 = weft.backward @b1 stage 1 microbatch 0 (%h0) : (!weft.buffer<gradient, 64>) -> ()
    %t0 = weft.backward @b0 stage 0 microbatch 1 lane 1 (%g0, %g1)
        : (!weft.buffer<gradient, 64>, !weft.buffer<gradient, 64>) -> ()
  }
}
