#include "compiler/rewrite/buckets.h"

#include <algorithm>

namespace weft {

std::vector<Bucket> CutIntoBuckets(absl::Span<const int64_t> tensors, int64_t capacity) {
  std::vector<Bucket> buckets;
  // Of the last bucket.
  int64_t room = 0;
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
    for (int64_t first = 0; first < tensors[t];) {
      if (room == 0) {
        buckets.emplace_back();
        room = capacity;
      }
      const int64_t count = std::min(tensors[t] - first, room);
      buckets.back().pieces.push_back({t, first, count, capacity - room});
      const int64_t padded = (count + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
      room -= padded;
      buckets.back().elements = capacity - room;
      first += count;
    }
  }
  return buckets;
}

}  // namespace weft
