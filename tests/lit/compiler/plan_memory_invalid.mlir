// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-plan-memory))' -verify-diagnostics

// The next action is chosen at run time, but collectives need one order on all ranks.
weft.program @p mesh<pipe = 1> stages 1 microbatches 1 schedule "axonn" attributes {compute_order = #weft<compute_order arrival>, limit = 1 : i32} {
  weft.signature @f forward stage 0 [#weft.operand<<workspace>, write, <workspace, 128>>] {collectives}
  // expected-error@+1 {{[memory_c3] chooses the order of forwards and backwards while it runs (rule P6), but they hold collectives; use a schedule with a static order}}
  weft.template @all at {} {
    %w, %t0 = weft.forward @f stage 0 microbatch 0 () : () -> !weft.buffer<workspace, 128>
  }
}
