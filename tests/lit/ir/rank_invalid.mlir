// Each rule of the rank level's verifiers is broken once.
// RUN: weft-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{[program_c1] microbatches must be at least 1, got 0}}
weft.program @p mesh<pipe = 2> stages 2 microbatches 0 schedule "1f1b" {
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  // expected-error @+1 {{[program_c2] only weft.signature and weft.template}}
  weft.tensor @w index 0 shape [4] : tensor<4xf32>
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  // expected-note @+1 {{the other template}}
  weft.template @a at {pipe = 0 : i64} {
  }
  // expected-error @+1 {{[program_c3] two templates are at}}
  weft.template @b at {pipe = 0 : i64} {
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  // expected-error @+1 {{[template_c1] axis "pipe" has coordinates 0 to 1, got 2}}
  weft.template @a at {pipe = 2 : i64} {
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  // expected-error @+1 {{[signature_c1] stage must be below 2, got 2}}
  weft.signature @f forward stage 2 []
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  // expected-error @+1 {{[signature_c2] operands 0 and 1 have the same role}}
  weft.signature @f forward stage 0 [#weft.operand<<param tensor 0>, read, !weft.buffer<parameter, 4>>,
                                     #weft.operand<<param tensor 0>, read, !weft.buffer<parameter, 4>>]
}

// -----

// expected-error @+1 {{[mesh_c2] axis "data" must have at least one coordinate, got 0}}
weft.program @p mesh<data = 0> stages 1 microbatches 1 schedule "1f1b" {
}

// -----

// expected-error @+1 {{[mesh_c3] axis "data" is listed twice}}
weft.program @p mesh<data = 2, data = 2> stages 1 microbatches 1 schedule "1f1b" {
}

// -----

// expected-error @+1 {{[mesh_c4] the mesh has more than 2^40 ranks}}
weft.program @p mesh<data = 1099511627776, pipe = 2> stages 1 microbatches 1 schedule "1f1b" {
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[buffer_c1] a buffer must not have a negative size, got -4 bytes}}
    %a = weft.persistent <norms> : <communication, -4>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[buffer_c2] the content of a buffer must be a statically shaped tensor}}
    %a = weft.persistent <norms> : <communication, 4, f32>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[compute_c1] the program has no signature @nothing}}
    %t = weft.forward @nothing stage 0 microbatch 0 () : () -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  // expected-note @+1 {{the signature}}
  weft.signature @b backward stage 1 []
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[compute_c2] runs @b, which is of kind backward for stage 1, in an action of stage 1; kind and stage must match the action}}
    %t = weft.forward @b stage 1 microbatch 0 () : () -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  // expected-note @+1 {{the signature}}
  weft.signature @f forward stage 0 [#weft.operand<<param tensor 0>, read, !weft.buffer<parameter, 4>>]
  weft.template @a at {pipe = 0 : i64} {
    %w = weft.persistent <param tensor 0> : <parameter, 8>
    // expected-error @+1 {{[compute_c3] input 0 must be '!weft.buffer<parameter, 4>' for operand 0, got '!weft.buffer<parameter, 8>'}}
    %t = weft.forward @f stage 0 microbatch 0 (%w) : (!weft.buffer<parameter, 8>) -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.signature @f forward stage 0 []
  weft.template @a at {pipe = 0 : i64} {
    %w = weft.persistent <param tensor 0> : <parameter, 8>
    // expected-error @+1 {{[compute_c4] the signature has 0 inputs and 0 outputs, got 1 and 0}}
    %t = weft.forward @f stage 0 microbatch 0 (%w) : (!weft.buffer<parameter, 8>) -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.signature @f forward stage 0 []
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[compute_c5] 0 outputs have 1 offsets}}
    %t = weft.forward @f stage 0 microbatch 0 () {offsets = array<i64: 0>} : () -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.signature @f forward stage 0 []
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[compute_c6] microbatch must be 0 to 0, got 1}}
    %t = weft.forward @f stage 0 microbatch 1 () : () -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 3 schedule "1f1b" {
  weft.signature @f forward stage 0 []
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[compute_c6] microbatch must be 0 to 2, got 2 and 1 more}}
    %t = weft.forward @f stage 0 microbatch 2 width 2 () : () -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 2 schedule "1f1b" {
  weft.signature @b backward stage 0 []
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[compute_c7] only a forward can have several microbatches}}
    %t = weft.backward @b stage 0 microbatch 0 width 2 () : () -> ()
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[transfer_c1] stage must be 0 to 1, got 2}}
    %x, %t = weft.recv from {pipe = 1 : i64} towards_loss stage 2 microbatch 0 : <in_flight_activation, 4>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[transfer_c2] axis "pipe" has coordinates 0 to 1, got 5}}
    %x, %t = weft.recv from {pipe = 5 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 4>
  }
}

// -----

weft.program @p mesh<data = 2, pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[transfer_c3] names the peer's coordinate on axis "data", which its template does not pin}}
    %x, %t = weft.recv from {data = 1 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 4>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[transfer_c4] the peer {pipe = 0 : i64} is the rank itself}}
    %x, %t = weft.recv from {pipe = 0 : i64} towards_loss stage 1 microbatch 0 : <in_flight_activation, 4>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[recv_c1] its one buffer needs one offset, got 2 offsets}}
    %x, %t = weft.recv from {pipe = 1 : i64} from_loss stage 0 microbatch 0 {offsets = array<i64: 0, 256>}
        : <in_flight_activation, 4>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    %a = weft.persistent <norms> : <communication, 8>
    %b = weft.persistent <losses> : <communication, 16>
    // expected-error @+1 {{[all_reduce_c1] needs sources, each with a destination of its type}}
    %t = weft.all_reduce (%a) into (%b) over {pipe = array<i64>} norm_sync "direct" stage 0
        : (!weft.buffer<communication, 8>) -> (!weft.buffer<communication, 16>)
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    %a = weft.persistent <norms> : <communication, 8>
    // expected-error @+1 {{[all_reduce_c2] coordinates on axis "pipe" must ascend from 0 to at most 1, got array<i64: 1, 0>}}
    %t = weft.all_reduce (%a) into (%a) over {pipe = array<i64: 1, 0>} norm_sync "direct" stage 0
        : (!weft.buffer<communication, 8>) -> (!weft.buffer<communication, 8>)
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    %a = weft.persistent <norms> : <communication, 8>
    // expected-error @+1 {{[all_reduce_c3] its own coordinate 0 on axis "pipe" is not in the group}}
    %t = weft.all_reduce (%a) into (%a) over {pipe = array<i64: 1>} norm_sync "direct" stage 0
        : (!weft.buffer<communication, 8>) -> (!weft.buffer<communication, 8>)
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.signature @f forward stage 0 []
  weft.template @a at {pipe = 0 : i64} {
    // expected-note @+1 {{the buffer}}
    %a = weft.persistent <norms> : <communication, 8>
    %t = weft.forward @f stage 0 microbatch 0 () : () -> ()
    // expected-error @+1 {{[release_c1] a persistent buffer must not be released}}
    weft.release %a with %t : <communication, 8>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.signature @f forward stage 0 [#weft.operand<<workspace>, write, !weft.buffer<workspace, 8>>]
  weft.template @a at {pipe = 0 : i64} {
    %a, %t = weft.forward @f stage 0 microbatch 0 () : () -> (!weft.buffer<workspace, 8>)
    // expected-error @+1 {{[release_c2] the buffer is released twice}}
    weft.release %a with %t : <workspace, 8>
    // expected-note @+1 {{the other release}}
    weft.release %a with %t : <workspace, 8>
  }
}

// -----

weft.program @p mesh<pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    %a = weft.persistent <norms> : <communication, 8>
    // expected-error @+1 {{[all_reduce_c2] coordinates on axis "pipe" must ascend from 0 to at most 1, got {rank = 2 : i64}}}
    %t = weft.all_reduce (%a) into (%a) over {pipe = {rank = 2 : i64}} norm_sync "direct" stage 0
        : (!weft.buffer<communication, 8>) -> (!weft.buffer<communication, 8>)
  }
}

// -----

weft.program @p mesh<data = 4, pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    %a = weft.persistent <norms> : <communication, 8>
    // expected-error @+1 {{[all_reduce_c4] block and stride on axis "data" must divide its size 4, got 3}}
    %t = weft.all_reduce (%a) into (%a) over {data = {block = 3 : i64}} norm_sync "direct" stage 0
        : (!weft.buffer<communication, 8>) -> (!weft.buffer<communication, 8>)
  }
}

// -----

weft.program @p mesh<data = 4, pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    %a = weft.persistent <norms> : <communication, 8>
    // expected-error @+1 {{[all_gather_c1] needs sources, each with a destination, given or made, got 1, 0 and 0}}
    %t = weft.all_gather (%a) into () over {data = array<i64>} norm_sync "direct" stage 0
        : (!weft.buffer<communication, 8>) -> ()
  }
}

// -----

weft.program @p mesh<data = 4, pipe = 2> stages 2 microbatches 1 schedule "1f1b" {
  weft.template @a at {pipe = 0 : i64} {
    // expected-error @+1 {{[reduce_scatter_c1] needs sources, each with a destination, given or made, got 0, 0 and 0}}
    %t = weft.reduce_scatter () into () over {data = array<i64>} norm_sync "direct" stage 0 : () -> ()
  }
}
