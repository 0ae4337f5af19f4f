// The parts of a logical tensor's state: the weight and the optimizer's moments. Checkpoints hold these parts.
#ifndef WEFT_PROTO_UTIL_STATE_PART_H_
#define WEFT_PROTO_UTIL_STATE_PART_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft {

enum class StatePart { kWeight, kMoment1, kMoment2 };
inline constexpr StatePart kStateParts[] = {StatePart::kWeight, StatePart::kMoment1, StatePart::kMoment2};

// The suffix of a tensor's name in checkpoints: "" for the weight, else "#moment1" or "#moment2".
absl::string_view StatePartSuffix(StatePart part);

// The roles of the buffers that hold the part: first what the optimizer updates, then what is rounded from it.
absl::Span<const BufferRole> StateRoles(StatePart part);

// Returns the buffer that holds this part of a tensor, by the first of its roles that the template has; null = none.
const Buffer* StateBuffer(const Template& t, int tensor, StatePart part);

// Bytes of all tensors of a checkpoint, without the headers of its files.
int64_t CheckpointBytes(const Program& program);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_STATE_PART_H_
