// Validates the figures of a device: their ranges, and how they agree.
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_DEVICE_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_DEVICE_H_

#include <string>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace weft {

// `path` is the path of the device: "cluster.device".
absl::Status ValidateDevice(const std::string& path, const Device& device);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_DEVICE_H_
