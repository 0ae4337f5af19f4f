// The key under which the measured duration of a step is kept (proto/util/kernel_key.h).
#ifndef WEFT_KERNELS_KERNEL_KEY_H_
#define WEFT_KERNELS_KERNEL_KEY_H_

#include <string>

#include "proto/program.pb.h"

namespace weft::kernels {

// `segment` is verified. Two steps with the same key compute equally much on tensors of the same shapes and types.
// Seeds, sites, scales and the like do not count.
std::string KernelKey(const Segment& segment, const Step& step);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_KERNEL_KEY_H_
