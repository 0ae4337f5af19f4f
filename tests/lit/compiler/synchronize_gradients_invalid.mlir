// A tensor that two stages of one rank share.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-synchronize-gradients))' --verify-diagnostics

// expected-error @+1 {{[sync_c1] tensor 0 is used by several stages of one rank}}
weft.program @p mesh<pipe = 1> stages 2 microbatches 1 schedule "gpipe" {
  weft.signature @b0 backward stage 0 [#weft.operand<<grad tensor 0>, read_write, <gradient, 64>>]
  weft.signature @b1 backward stage 1 [#weft.operand<<grad tensor 0 use 1>, read_write, <gradient, 64>>]
  weft.template @pipe0 at {pipe = 0 : i64} {
    %g0 = weft.persistent <grad tensor 0> : <gradient, 64>
    %g1 = weft.persistent <grad tensor 0 use 1> : <gradient, 64>
    %t1 = weft.backward @b1 stage 1 microbatch 0 (%g1) : (!weft.buffer<gradient, 64>) -> ()
    %t0 = weft.backward @b0 stage 0 microbatch 0 (%g0) : (!weft.buffer<gradient, 64>) -> ()
  }
}
