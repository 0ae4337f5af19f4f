#include "proto/util/state_part.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "absl/types/span.h"
#include "proto/util/units.h"

namespace weft {
absl::Span<const BufferRole> StateRoles(StatePart part) {
  static constexpr BufferRole kWeight[] = {MASTER, PARAM};
  static constexpr BufferRole kMoment1[] = {MOMENT1};
  static constexpr BufferRole kMoment2[] = {MOMENT2};
  switch (part) {
    case StatePart::kWeight:
      return kWeight;
    case StatePart::kMoment1:
      return kMoment1;
    case StatePart::kMoment2:
      return kMoment2;
  }
  return {};
}

absl::string_view StatePartSuffix(StatePart part) {
  return part == StatePart::kWeight ? "" : part == StatePart::kMoment1 ? "#moment1" : "#moment2";
}

const Buffer* StateBuffer(const Template& t, int tensor, StatePart part) {
  for (const BufferRole role : StateRoles(part)) {
    for (const Buffer& buffer : t.buffers()) {
      if (buffer.role() == role && buffer.tensor() == tensor) return &buffer;
    }
  }
  return nullptr;
}

int64_t CheckpointBytes(const Program& program) {
  // For each tensor and part: the bytes of one element as it is stored. If there are master weights, they are stored
  // instead of the parameter.
  std::vector<std::array<int64_t, std::size(kStateParts)>> element(program.tensors_size());
  for (const Template& t : program.templates()) {
    for (const Buffer& buffer : t.buffers()) {
      for (const StatePart part : kStateParts) {
        const absl::Span<const BufferRole> roles = StateRoles(part);
        if (std::find(roles.begin(), roles.end(), buffer.role()) == roles.end()) continue;
        int64_t& bytes = element[buffer.tensor()][static_cast<size_t>(part)];
        if (bytes == 0 || buffer.role() == roles.front()) bytes = DTypeBytes(buffer.dtype());
      }
    }
  }
  int64_t sum = 0;
  for (int tensor = 0; tensor < program.tensors_size(); ++tensor) {
    const int64_t elements = ElementCount(program.tensors(tensor).shape()).value_or(0);
    for (const int64_t bytes : element[tensor]) sum += elements * bytes;
  }
  return sum;
}

}  // namespace weft
