// The key under which the measured duration of a step is stored (proto/util/kernel_key.h).
#ifndef WEFT_KERNELS_KERNEL_KEY_H_
#define WEFT_KERNELS_KERNEL_KEY_H_

#include <string>

#include "proto/program.pb.h"

namespace weft::kernels {

// Steps with equal keys are expected to take the same time. The key contains the kernel, the tensors' types, the
// options that affect the time, and the extents (or the bytes if there are more than 12 tensors). It does not contain
// seeds, sites, scales and the like. `segment` must be verified.
std::string KernelKey(const Segment& segment, const Step& step);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_KERNEL_KEY_H_
