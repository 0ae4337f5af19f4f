// How a runtime computes a kernel on a device.
#ifndef WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_
#define WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns the last form of the kernel for devices of this compute capability, or null.
const KernelForm* FormOf(const Runtime& runtime, Kernel kernel, int capability);

// Returns FailedPrecondition if a kernel of the program has an `unsupported` form for this device. Returns the same
// error if products are `in_8_bits` and the program's products, which the figures are relative to, have more than 16
// bits.
absl::Status CheckForms(const Runtime& runtime, const Device& device, const Program& program);

// Returns notes in three cases:
//   - Products are in 8 bits: utilization and bounds refer to the peak of the program's products.
//   - The device states no compute capability, and a kernel of the program is `unsupported` on devices of some
//     capabilities: the note says that weft assumes a device with the kernel.
//   - A kernel of the program has forms for lower and for higher capabilities than the device's, and none for it: the
//     note says that the kernel is costed without a form.
std::vector<std::string> NotesOnForms(const Runtime& runtime, const Device& device, const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_
