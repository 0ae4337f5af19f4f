// Elements of tensors cut into buckets that are worked through one after the other, and how many buckets optimizer
// states in host memory may be cut into.
#ifndef WEFT_COMPILER_REWRITE_BUCKETS_H_
#define WEFT_COMPILER_REWRITE_BUCKETS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Elements at which a tensor may be cut: a multiple of 64 bytes whatever their type.
constexpr int64_t kBucketAlignment = 64;

// Neighbouring elements of one tensor, and where they lie in their bucket.
struct BucketPiece {
  int tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
  int64_t position = 0;
};

struct Bucket {
  std::vector<BucketPiece> pieces;
  // With what lies between pieces, which begin at multiples of kBucketAlignment.
  int64_t elements = 0;
};

// Cuts tensors of so many elements, in order, into buckets of at most `capacity`, a multiple of kBucketAlignment. All
// but the last are as full as the alignment allows.
std::vector<Bucket> CutIntoBuckets(absl::Span<const int64_t> tensors, int64_t capacity);

// Buckets that are on the device at one time: one comes, one is stepped, one goes.
constexpr int kBucketsOnDevice = 3;
// The smallest plan.offload.bucket_elements.
constexpr int64_t kLeastBucketElements = 192;
// The most buckets of a rank, and of all templates together: each becomes three actions and three segments.
constexpr int64_t kMostBuckets = int64_t{1} << 16;
constexpr int64_t kMostBucketsInAll = int64_t{1} << 18;

// Elements of one bucket.
int64_t BucketCapacity(const Offload& offload);

// InvalidArgument if there would be more, with the nearest valid size. The last bucket of a chunk, which may be
// smaller than others, is not counted. `program` has MASTER buffers for all tensors.
absl::Status CheckBucketCount(const Offload& offload, const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_BUCKETS_H_
