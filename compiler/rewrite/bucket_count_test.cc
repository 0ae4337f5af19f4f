#include <string>

#include "compiler/rewrite/buckets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::HasSubstr;

// A program of `templates` templates with one tensor each.
Program ProgramWith(int templates, int64_t elements) {
  Program program;
  for (int i = 0; i < templates; ++i) {
    Template& t = *program.add_templates();
    for (const BufferRole role : {PARAM, MASTER, MOMENT1}) {
      Buffer& buffer = *t.add_buffers();
      buffer.set_role(role);
      buffer.set_dtype(FP32);
      buffer.set_bytes(4 * elements);
    }
  }
  return program;
}

std::string Error(int64_t bucket_elements, const Program& program) {
  Offload offload;
  offload.set_bucket_elements(bucket_elements);
  return std::string(CheckBucketCount(offload, program).message());
}

TEST(BucketCount, LimitsBucketsOfARank) {
  const int64_t most = kMaxBuckets * 64;
  EXPECT_EQ(Error(192, ProgramWith(1, most)), "");
  EXPECT_THAT(Error(192, ProgramWith(1, most + 1)),
              HasSubstr("plan.offload.bucket_elements = 192 makes too many buckets: a rank has states of up to 4194368 "
                        "elements, and all pipe ranks have 4194368; allowed: at most 65536 buckets per rank and 262144 "
                        "in all; nearest valid: 384"));
  // If bucket_elements is 384, each bucket has 128 elements.
  EXPECT_EQ(Error(384, ProgramWith(1, most + 1)), "");
  EXPECT_EQ(Error(384, ProgramWith(1, 2 * most)), "");
  EXPECT_THAT(Error(575, ProgramWith(1, 2 * most + 1)), HasSubstr("nearest valid: 576"));
}

TEST(BucketCount, LimitsBucketsOfAllRanks) {
  const int64_t most = kMaxBuckets * 64;
  EXPECT_EQ(Error(192, ProgramWith(4, most)), "");
  EXPECT_THAT(Error(192, ProgramWith(5, most)), HasSubstr("nearest valid: 384"));
  EXPECT_EQ(Error(384, ProgramWith(5, most)), "");
}

// States as large as an arena may be.
TEST(BucketCount, LargeStates) {
  EXPECT_THAT(Error(192, ProgramWith(8, int64_t{1} << 48)), HasSubstr("nearest valid: 25769803776"));
  EXPECT_EQ(Error(25769803776, ProgramWith(8, int64_t{1} << 48)), "");
}

}  // namespace
}  // namespace weft
