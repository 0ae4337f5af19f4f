// Elements of tensors cut into buckets that are worked through one after the other.
#ifndef WEFT_COMPILER_REWRITE_BUCKETS_H_
#define WEFT_COMPILER_REWRITE_BUCKETS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

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

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_BUCKETS_H_
