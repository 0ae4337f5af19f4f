#include "compiler/rewrite/gradient_sums.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::Pair;

Template Parse(const std::string& text) {
  Template t;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &t)) << text;
  return t;
}

// Tensor 7 is scattered, and its part is summed over groups. Tensor 8 is summed in place. The weights are gathered.
TEST(GradientSums, FollowsParts) {
  const GradientSums sums = GradientSumsOf(Parse(R"(
    buffers { role: GRAD tensor: 7 persistent: true } buffers { role: GRAD tensor: 8 persistent: true }
    buffers {} buffers { role: PARAM tensor: 7 persistent: true } buffers {} buffers { role: LOSSES }
    body { kind: FORWARD }
    body { kind: ALL_REDUCE sources: 1 destinations: 1 }
    body { kind: REDUCE_SCATTER sources: 0 destinations: 2 }
    body { kind: ALL_REDUCE sources: 2 destinations: 2 }
    body { kind: ALL_REDUCE sources: 5 destinations: 5 }
    body { kind: ALL_GATHER sources: 4 destinations: 3 })"));
  EXPECT_THAT(sums.tensor_of, ElementsAre(Pair(0, 7), Pair(1, 8), Pair(2, 7)));
  EXPECT_THAT(sums.last_sum, ElementsAre(Pair(7, 3), Pair(8, 1)));
}

TEST(GradientSums, NothingIsSummed) {
  const GradientSums sums =
      GradientSumsOf(Parse("buffers { role: GRAD_ACCUMULATOR tensor: 0 } body { kind: FORWARD }"));
  EXPECT_THAT(sums.tensor_of, ElementsAre(Pair(0, 0)));
  EXPECT_TRUE(sums.last_sum.empty());
}

}  // namespace
}  // namespace weft
