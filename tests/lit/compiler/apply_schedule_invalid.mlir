// Programs to which a schedule cannot be applied.
// RUN: weft-opt %s --pass-pipeline='builtin.module(weft.program(weft-apply-schedule))' --split-input-file --verify-diagnostics

// expected-error @+1 {{[schedule_c1] has no signature of kind backward for stage 0}}
weft.program @p mesh<pipe = 1> stages 1 microbatches 1 schedule "gpipe" {
  weft.signature @f0 forward stage 0 []
}

// -----

// expected-error @+1 {{[schedule_c3] schedule "gpipe" has 2 stages on 2 ranks, the program has 3}}
weft.program @p mesh<pipe = 2> stages 3 microbatches 1 schedule "gpipe" {
}

// -----

// expected-error @+1 {{[schedule_c4] }}
weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1fib" {
}
