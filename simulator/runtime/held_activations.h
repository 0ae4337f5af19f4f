// Activations that a framework keeps for its backwards, beside those of the program's own buffers.
#ifndef WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
#define WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Bytes of a rank of the template at its peak, less those of the program at its own: KernelForm.saved of every step
// whose result is kept, from the forward on; with memory.frees_between_halves only what a weight half reads from the
// input half on; with memory.parts_in_place no parts of sums and new parameters. Of the body in list order.
double HeldBeside(const Program& program, const Template& t, const Runtime& runtime);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
