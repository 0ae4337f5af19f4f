// The end of a step on two stages and two replicas. Both stages share tensor 0.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-synchronize-gradients))' | FileCheck %s

// CHECK-LABEL: weft.template @pipe0
// CHECK-DAG: %[[G0:.*]] = weft.persistent <grad tensor 0> :
// CHECK-DAG: %[[G1:.*]] = weft.persistent <grad tensor 1> :
// CHECK-DAG: %[[LN:.*]] = weft.persistent <local_norms> :
// CHECK-DAG: %[[N:.*]] = weft.persistent <norms> :
// CHECK-DAG: %[[LL:.*]] = weft.persistent <local_losses> :
// CHECK-DAG: %[[L:.*]] = weft.persistent <losses> :
// CHECK: weft.backward @b0
// A bucket closes at 64 bytes, so each holds one tensor.
// CHECK-NEXT: weft.all_reduce(%[[G0]]) into(%[[G0]]) over {data = array<i64>} gradient_sync "ring" stage 0
// CHECK-NEXT: weft.all_reduce(%[[G1]]) into(%[[G1]]) over {data = array<i64>} gradient_sync "ring" stage 0
// CHECK-NEXT: weft.all_reduce(%[[G0]]) into(%[[G0]]) over {pipe = array<i64: 0, 1>} tied_sync "direct" stage 0
// CHECK-NEXT: weft.grad_norm @n0 stage 0
// CHECK-NEXT: weft.all_reduce(%[[LN]]) into(%[[N]]) over {pipe = array<i64>} norm_sync "direct" stage 0
// CHECK-NEXT: weft.all_reduce(%[[LL]]) into(%[[L]]) over {pipe = array<i64>} loss_sync "direct" stage 0
// CHECK-NEXT: weft.all_reduce(%[[L]]) into(%[[L]]) over {data = array<i64>} loss_sync "ring" stage 0
// CHECK-NEXT: weft.scale_gradients @c0 stage 0
// CHECK-NEXT: weft.optimizer_step @o0 stage 0
// CHECK-LABEL: weft.template @pipe1
// CHECK: %[[H0:.*]] = weft.persistent <grad tensor 0 use 1> :
// CHECK: weft.all_reduce(%[[H0]]) into(%[[H0]]) over {data = array<i64>} gradient_sync "ring" stage 1
// CHECK-NEXT: weft.all_reduce(%[[H0]]) into(%[[H0]]) over {pipe = array<i64: 0, 1>} tied_sync "direct" stage 1
weft.program @p mesh<data = 2, pipe = 2> stages 2 microbatches 1 schedule "gpipe"
    attributes {clip, gradient_bucket_bytes = 64 : i64} {
  weft.signature @b0 backward stage 0 [
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64, tensor<4x4xf32>>>,
    #weft.operand<<grad tensor 1>, read_write, <gradient, 64, tensor<4x4xf32>>>]
  weft.signature @n0 grad_norm stage 0 [
    #weft.operand<<grad tensor 0>, read, <gradient, 64, tensor<4x4xf32>>>,
    #weft.operand<<local_norms>, read_write, <communication, 16, tensor<2xf64>>>] {rank = 0 : si32}
  weft.signature @c0 scale_gradients stage 0 [
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64, tensor<4x4xf32>>>,
    #weft.operand<<norms>, read, <communication, 16, tensor<2xf64>>>] {rank = 0 : si32}
  weft.signature @o0 optimizer_step stage 0 [
    #weft.operand<<param tensor 0>, read_write, <parameter, 64, tensor<4x4xf32>>>,
    #weft.operand<<grad tensor 0>, read_write, <gradient, 64, tensor<4x4xf32>>>,
    #weft.operand<<grad tensor 1>, read_write, <gradient, 64, tensor<4x4xf32>>>] {rank = 0 : si32}
  weft.signature @o1 optimizer_step stage 1 [
    #weft.operand<<grad tensor 0 use 1>, read_write, <gradient, 64, tensor<4x4xf32>>>] {rank = 1 : si32}
  weft.signature @b1 backward stage 1 [
    #weft.operand<<grad tensor 0 use 1>, read_write, <gradient, 64, tensor<4x4xf32>>>,
    #weft.operand<<local_losses>, read, <communication, 16, tensor<2xf64>>>]
  weft.template @pipe0 at {pipe = 0 : i64} {
    %g0 = weft.persistent <grad tensor 0> : <gradient, 64, tensor<4x4xf32>>
    %g1 = weft.persistent <grad tensor 1> : <gradient, 64, tensor<4x4xf32>>
    %t = weft.backward @b0 stage 0 microbatch 0 (%g0, %g1)
        : (!weft.buffer<gradient, 64, tensor<4x4xf32>>, !weft.buffer<gradient, 64, tensor<4x4xf32>>) -> ()
  }
  weft.template @pipe1 at {pipe = 1 : i64} {
    %g0 = weft.persistent <grad tensor 0 use 1> : <gradient, 64, tensor<4x4xf32>>
    %l = weft.persistent <local_losses> : <communication, 16, tensor<2xf64>>
    %t = weft.backward @b1 stage 1 microbatch 0 (%g0, %l)
        : (!weft.buffer<gradient, 64, tensor<4x4xf32>>, !weft.buffer<communication, 16, tensor<2xf64>>) -> ()
  }
}
