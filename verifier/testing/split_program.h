// A handwritten training program on the mesh x, z, data (2 each by default) with two microbatches. It has an embedding
// and a head, both cut over x by rows of the vocabulary and over z in ranges, with a norm between them. Weights are
// gathered before they are read, and detached steps scatter gradients. It is a small version of AxoNN's four axes, with
// ZeRO stage 1 on request.
//
//   F0 F1 B0 B1 | gradient syncs, norm, clip, optimizer (, gather weights)
#ifndef WEFT_VERIFIER_TESTING_SPLIT_PROGRAM_H_
#define WEFT_VERIFIER_TESTING_SPLIT_PROGRAM_H_

#include "proto/program.pb.h"

namespace weft {

// `zero`: true = cut master weights over data too. `data`: number of ranks of that axis, at least 2. `layers`: number
// of additional sums over x in a forward, each between two compute steps. `padded`: rows of the tables. `z`: number of
// ranks of that axis.
Program SplitProgram(bool zero = false, int64_t data = 2, int microbatches = 2, int layers = 0, int64_t padded = 16,
                     int64_t z = 2);

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_SPLIT_PROGRAM_H_
