// How a runtime computes a kernel on a device.
#ifndef WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_
#define WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// The last form of the kernel that is for devices of this compute capability, or null.
const KernelForm* FormOf(const Runtime& runtime, Kernel kernel, int capability);

}  // namespace weft

#endif  // WEFT_SIMULATOR_RUNTIME_KERNEL_FORM_H_
