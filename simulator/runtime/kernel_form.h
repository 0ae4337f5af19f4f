// How a runtime computes a kernel on a device.
#ifndef WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_
#define WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_

#include <string>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// The last form of the kernel that is for devices of this compute capability, or null.
const KernelForm* FormOf(const Runtime& runtime, Kernel kernel, int capability);

// Refused is a device that lies in a gap: of some kernel of the program there are forms for lower and for higher
// compute capabilities, and none for its own. So a runtime says what devices between them cannot do, as products in 8
// bits before 89.
absl::Status CheckForms(const Runtime& runtime, const Device& device, const Program& program);

// Where such a runtime has a form for devices that state no compute capability, and this is one: that it is believed.
// Otherwise empty.
std::string NoteOnForms(const Runtime& runtime, const Device& device);

}  // namespace weft

#endif  // WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_
