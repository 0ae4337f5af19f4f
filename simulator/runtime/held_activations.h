// Activations that a framework keeps for its backwards in addition to the program's own buffers.
#ifndef WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
#define WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns the peak bytes of a rank of the template under the framework, less the peak bytes of the program. The
// framework keeps KernelForm.saved of every step whose result is kept, from the forward on. With
// memory.frees_between_halves, it keeps only what the weight half reads, from the input half on. With
// memory.parts_in_place, it has no parts of sums and of new parameters. The actions of the body are taken in list
// order.
double HeldBeside(const Program& program, const Template& t, const Runtime& runtime);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
