// Cuts the elements of tensors into buckets that are processed one after the other, and limits the number of buckets of
// optimizer states in host memory.
#ifndef WEFT_COMPILER_REWRITE_BUCKETS_H_
#define WEFT_COMPILER_REWRITE_BUCKETS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Tensors are cut at multiples of this many elements: multiples of 64 bytes for any type.
constexpr int64_t kBucketAlignment = 64;

// Neighboring elements of one tensor, and their position in their bucket.
struct BucketPiece {
  int tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
  int64_t position = 0;
};

struct Bucket {
  std::vector<BucketPiece> pieces;
  // Number of elements, including the gaps between pieces. Pieces begin at multiples of kBucketAlignment.
  int64_t elements = 0;
};

// Cuts tensors into buckets of at most `capacity` elements. `tensors` holds their numbers of elements, in order;
// `capacity` is a multiple of kBucketAlignment. All buckets but the last are as full as the alignment allows.
std::vector<Bucket> CutIntoBuckets(absl::Span<const int64_t> tensors, int64_t capacity);

// Buckets on the device at one time: one is fetched, one is updated, one is written back.
constexpr int kBucketsOnDevice = 3;
// The smallest plan.offload.bucket_elements.
constexpr int64_t kMinBucketElements = 192;
// The most buckets of a rank, and of all templates together. Each bucket becomes three actions and three segments.
constexpr int64_t kMaxBuckets = int64_t{1} << 16;
constexpr int64_t kMaxBucketsInAll = int64_t{1} << 18;

// The most elements of one bucket.
int64_t BucketCapacity(const Offload& offload);

// InvalidArgument if there would be more buckets than kMaxBuckets; the message has the nearest valid size. The tensors
// whose gradients one collective sums (a chunk) may end with a smaller bucket; these extra buckets are not counted.
// `program` must have MASTER buffers for all tensors.
absl::Status CheckBucketCount(const Offload& offload, const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_BUCKETS_H_
