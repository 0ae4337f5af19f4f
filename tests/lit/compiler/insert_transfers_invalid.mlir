// Boundaries that no action makes, or that an action makes differently.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-insert-transfers))' --split-input-file --verify-diagnostics

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "gpipe" {
  weft.template @pipe1 at {pipe = 1 : i64} {
    // expected-error @+1 {{[transfers_c1] no rank runs the action of stage 0, microbatch 0 that makes this tensor}}
    %x = weft.boundary towards_loss stage 1 microbatch 0 : <in_flight_activation, 64>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "gpipe" {
  weft.signature @f0 forward stage 0 [#weft.operand<<output>, write, <in_flight_activation, 32>>]
  weft.template @pipe0 at {pipe = 0 : i64} {
    // expected-note @+1 {{the action that makes it}}
    %y, %t = weft.forward @f0 stage 0 microbatch 0 () : () -> (!weft.buffer<in_flight_activation, 32>)
  }
  weft.template @pipe1 at {pipe = 1 : i64} {
    // expected-error @+1 {{[transfers_c2] is read as '!weft.buffer<in_flight_activation, 64>' but made as}}
    %x = weft.boundary towards_loss stage 1 microbatch 0 : <in_flight_activation, 64>
  }
}
