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

// The last form of the kernel that is for devices of this compute capability, or null.
const KernelForm* FormOf(const Runtime& runtime, Kernel kernel, int capability);

// FailedPrecondition where the form of a kernel of the program, for this device, is `unsupported`; or where products
// are `in_8_bits` and those of the program, which these figures are relative to, are in more than 16.
absl::Status CheckForms(const Runtime& runtime, const Device& device, const Program& program);

// Where products are in 8 bits: that utilisations and bounds are by the peak of the program's. Where the device states
// no compute capability, and some of those that do have no form of a kernel of the program: that this one is believed
// to have it. Where there are forms of a kernel of the program for lesser and for greater capabilities than the
// device's, and none for this one: that it is costed without.
std::vector<std::string> NotesOnForms(const Runtime& runtime, const Device& device, const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_
