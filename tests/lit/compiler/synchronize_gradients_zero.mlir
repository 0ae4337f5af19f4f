// ZeRO stage 1 on four replicas, two of which share one copy of the optimizer states. The gradient is scattered over
// these two, and its part is summed over the replicas with the same part. Then the new parameter is gathered; for
// tensor 1 directly from MASTER.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-synchronize-gradients))' | FileCheck %s

// CHECK-LABEL: weft.template @all
// CHECK-DAG: %[[G0:.*]] = weft.persistent <grad tensor 0> :
// CHECK-DAG: %[[G1:.*]] = weft.persistent <grad tensor 1> :
// CHECK-DAG: %[[M1:.*]] = weft.persistent <master tensor 1> :
// CHECK-DAG: %[[P0:.*]] = weft.persistent <param tensor 0> :
// CHECK-DAG: %[[P1:.*]] = weft.persistent <param tensor 1> :
// CHECK: weft.backward @b
// CHECK-NEXT: %[[PARTS:.*]]:2, %{{.*}} = weft.reduce_scatter(%[[G0]], %[[G1]]) into() over {data = {block = 2 : i64}} gradient_sync "ring" stage 0 : {{.*}} makes !weft.buffer<communication, 32>, !weft.buffer<communication, 32>
// CHECK-NEXT: weft.all_reduce(%[[PARTS]]#0, %[[PARTS]]#1) into(%[[PARTS]]#0, %[[PARTS]]#1) over {data = {stride = 2 : i64}} gradient_sync "ring" stage 0
// CHECK: %[[NEW:.*]], %{{.*}} = weft.optimizer_step @o stage 0(%[[PARTS]]#0, %[[PARTS]]#1,
// CHECK-NEXT: weft.all_gather(%[[NEW]], %[[M1]]) into(%[[P0]], %[[P1]]) over {data = {block = 2 : i64}} gather_weights "ring" stage 0
weft.program @p mesh<data = 4> stages 1 microbatches 1 schedule "gpipe" attributes {zero_group = 2 : i64} {
  weft.signature @f forward stage 0 [
    #weft.operand<<param tensor 0>, read, <parameter, 32>>,
    #weft.operand<<param tensor 1>, read, <parameter, 64>>]
  weft.signature @b backward stage 0 [
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64>>,
    #weft.operand<<grad tensor 1>, read_write, <gradient, 64>>]
  weft.signature @o optimizer_step stage 0 [
    #weft.operand<<grad_part tensor 0>, read, <communication, 32>>,
    #weft.operand<<grad_part tensor 1>, read, <communication, 32>>,
    #weft.operand<<master tensor 0>, read_write, <optimizer, 32>>,
    #weft.operand<<master tensor 1>, read_write, <optimizer, 32>>,
    #weft.operand<<param_part tensor 0>, write, <communication, 16>>,
    #weft.operand<<grad tensor 0>, write, <gradient, 64>>,
    #weft.operand<<grad tensor 1>, write, <gradient, 64>>] {rank = 0 : si32}
  weft.template @all at {} {
    %p0 = weft.persistent <param tensor 0> : <parameter, 32>
    %p1 = weft.persistent <param tensor 1> : <parameter, 64>
    %g0 = weft.persistent <grad tensor 0> : <gradient, 64>
    %g1 = weft.persistent <grad tensor 1> : <gradient, 64>
    %t0 = weft.forward @f stage 0 microbatch 0 (%p0, %p1) : (!weft.buffer<parameter, 32>, !weft.buffer<parameter, 64>) -> ()
    %t1 = weft.backward @b stage 0 microbatch 0 (%g0, %g1) : (!weft.buffer<gradient, 64>, !weft.buffer<gradient, 64>) -> ()
  }
}
