// Figures of a device: ranges, and how they agree.
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_DEVICE_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_DEVICE_H_

#include <string>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace weft {

// `path` is where the device stands: "cluster.device".
absl::Status ValidateDevice(const std::string& path, const Device& device);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_DEVICE_H_
