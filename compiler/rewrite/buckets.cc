#include "compiler/rewrite/buckets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/util/units.h"

namespace weft {
namespace {

int64_t Over(int64_t elements, int64_t count) { return elements / count + (elements % count != 0 ? 1 : 0); }

}  // namespace

std::vector<Bucket> CutIntoBuckets(absl::Span<const int64_t> tensors, int64_t capacity) {
  std::vector<Bucket> buckets;
  // Elements that still fit into the last bucket.
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

int64_t BucketCapacity(const Offload& offload) {
  return offload.bucket_elements() / kBucketsOnDevice / kBucketAlignment * kBucketAlignment;
}

absl::Status CheckBucketCount(const Offload& offload, const Program& program) {
  int64_t most = 0, all = 0;
  for (const Template& t : program.templates()) {
    int64_t elements = 0;
    for (const Buffer& buffer : t.buffers()) {
      if (buffer.role() != MASTER) continue;
      elements += RoundUp(buffer.bytes() / std::max<int64_t>(1, DTypeBytes(buffer.dtype())), kBucketAlignment);
    }
    most = std::max(most, elements);
    all += elements;
  }
  const int64_t least = RoundUp(std::max(Over(most, kMaxBuckets), Over(all, kMaxBucketsInAll)), kBucketAlignment);
  if (BucketCapacity(offload) >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan.offload.bucket_elements = ", offload.bucket_elements(),
                                                 " makes too many buckets: a rank has states of up to ", most,
                                                 " elements, and all pipe ranks have ", all, "; allowed: at most ",
                                                 kMaxBuckets, " buckets per rank and ", kMaxBucketsInAll,
                                                 " in all; nearest valid: ", least * kBucketsOnDevice));
}

}  // namespace weft
