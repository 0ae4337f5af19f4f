// Activations that a framework keeps for its backwards in addition to the program's own buffers.
#ifndef WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
#define WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Peak bytes of a rank's buffers that do not persist, up to the last action of a microbatch and after it.
struct HeldPeaks {
  double planned_microbatches = 0;
  double planned_end = 0;
  // Under the framework.
  double held_microbatches = 0;
  double held_end = 0;
};

// Returns the peaks of a rank of the template. For every step whose result is kept, the framework keeps
// KernelForm.saved too, from the forward on. With memory.frees_between_halves, after the input half of a backward it
// keeps only the tensors that the weight half reads. With memory.parts_in_place, the parts of sums and of new
// parameters take no memory. The actions of the body are taken in list order. All are 0 if the framework keeps what the
// program keeps.
HeldPeaks HeldPeaksOf(const Program& program, const Template& t, const Runtime& runtime);

// The peak under the framework minus the peak of the program.
double HeldBeside(const HeldPeaks& peaks);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HELD_ACTIVATIONS_H_
