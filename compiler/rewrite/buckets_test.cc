#include "compiler/rewrite/buckets.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(BucketsTest, LargeTensorsAreCutSmallOnesShare) {
  const std::vector<Bucket> buckets = CutIntoBuckets({100, 10, 300}, 192);
  ASSERT_EQ(buckets.size(), 3);
  // With its padding, the tensor of 100 elements takes 128. The tensor of 10 takes the rest.
  ASSERT_EQ(buckets[0].pieces.size(), 2);
  EXPECT_EQ(buckets[0].pieces[1].position, 128);
  EXPECT_EQ(buckets[0].elements, 192);
  ASSERT_EQ(buckets[1].pieces.size(), 1);
  EXPECT_EQ(buckets[1].pieces[0].count, 192);
  EXPECT_EQ(buckets[2].pieces[0].first, 192);
  EXPECT_EQ(buckets[2].pieces[0].count, 108);
  EXPECT_EQ(buckets[2].elements, 128);
}

TEST(BucketsTest, EveryElementIsInOneBucket) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> tensors(1 + random() % 6);
    for (int64_t& elements : tensors) elements = 1 + static_cast<int64_t>(random() % 1000);
    const int64_t capacity = kBucketAlignment * (1 + static_cast<int64_t>(random() % 8));
    std::vector<int64_t> next(tensors.size(), 0);
    int tensor = 0;
    for (const Bucket& bucket : CutIntoBuckets(tensors, capacity)) {
      EXPECT_LE(bucket.elements, capacity) << "round " << round;
      int64_t end = 0;
      for (const BucketPiece& piece : bucket.pieces) {
        EXPECT_GE(piece.tensor, tensor);
        tensor = piece.tensor;
        EXPECT_EQ(piece.first, next[tensor]);
        EXPECT_EQ(piece.first % kBucketAlignment, 0);
        EXPECT_EQ(piece.position % kBucketAlignment, 0);
        EXPECT_GE(piece.position, end);
        EXPECT_GT(piece.count, 0);
        end = piece.position + piece.count;
        next[tensor] += piece.count;
      }
      EXPECT_LE(end, bucket.elements);
    }
    EXPECT_EQ(next, tensors) << "round " << round;
  }
}

}  // namespace
}  // namespace weft
