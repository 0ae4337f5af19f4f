// A handwritten training program on the mesh x, z, data of 2 each, two microbatches: an embedding and a head, both cut
// over x by rows of the vocabulary and over z in ranges, with a norm between them. Weights are gathered before they are
// read, gradients scattered by detached steps; AxoNN's four axes in small, and ZeRO stage 1 on request.
//
//   F0 F1 B0 B1 | gradient syncs, norm, clip, optimizer (, gather weights)
#ifndef WEFT_VERIFIER_TESTING_SPLIT_PROGRAM_H_
#define WEFT_VERIFIER_TESTING_SPLIT_PROGRAM_H_

#include "proto/program.pb.h"

namespace weft {

// `zero`: master weights are cut over data too. `data`: ranks of that axis, at least 2. `layers`: a forward has so many
// more sums over x, each between two compute steps. `padded`: rows of the tables.
Program SplitProgram(bool zero = false, int64_t data = 2, int microbatches = 2, int layers = 0, int64_t padded = 16,
                     int64_t z = 2);

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_SPLIT_PROGRAM_H_
