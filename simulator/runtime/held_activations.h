// Activations that a framework keeps for its backwards in addition to the program's own buffers.
#ifndef WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
#define WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns the peak bytes of a rank of the template under the framework, minus the peak bytes of the program. For every
// step whose result is kept, the framework keeps KernelForm.saved too, from the forward on. With
// memory.frees_between_halves, after the input half of a backward it keeps only the tensors that the weight half reads.
// With memory.parts_in_place, the parts of sums and of new parameters take no memory. The actions of the body are taken
// in list order.
double HeldBeside(const Program& program, const Template& t, const Runtime& runtime);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
