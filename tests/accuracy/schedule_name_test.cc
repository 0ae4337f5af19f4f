#include "tests/accuracy/schedule_name.h"

#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

std::string Found(absl::string_view name) {
  const ScheduleName* found = FindScheduleName(name);
  return found == nullptr ? "none" : std::string(found->schedule);
}

TEST(ScheduleName, AsSourcesWordThem) {
  EXPECT_EQ(Found(""), "1f1b");
  EXPECT_EQ(Found("pipedream-flush"), "1f1b");
  EXPECT_EQ(Found("1f1b, interleaved"), "interleaved");
  EXPECT_EQ(Found("1f1b (non-interleaved)"), "1f1b");
  EXPECT_EQ(Found("1f1b-i"), "interleaved");
  EXPECT_EQ(Found("f-then-b"), "gpipe");
  EXPECT_EQ(Found("zero-bubble zb-2p"), "zb-h2");
  EXPECT_EQ(Found("zero bubble v"), "none");
  EXPECT_EQ(Found("zero bubble (zbv)"), "zb-v");
  EXPECT_EQ(Found("chimera wave"), "chimera-wave");
  EXPECT_EQ(Found("chimera (forward doubling)"), "chimera");
  // An unknown schedule is not replaced by a similar one.
  EXPECT_EQ(Found("dualpipe"), "none");
  EXPECT_EQ(Found("pipedream-2bw"), "none");
}

TEST(ScheduleName, StagesPerRankWhereThereAreSome) {
  EXPECT_EQ(FindScheduleName("vpp")->chunks, 2);
  EXPECT_EQ(FindScheduleName("zb-v")->chunks, 2);
  EXPECT_EQ(FindScheduleName("gems")->chunks, 0);
}

}  // namespace
}  // namespace weft
