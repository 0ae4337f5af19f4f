// How many buckets optimizer states in host memory may be cut into.
#ifndef WEFT_COMPILER_REWRITE_BUCKET_COUNT_H_
#define WEFT_COMPILER_REWRITE_BUCKET_COUNT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace weft {

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

#endif  // WEFT_COMPILER_REWRITE_BUCKET_COUNT_H_
