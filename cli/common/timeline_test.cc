#include "cli/common/timeline.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

// The common step of all starts and ends is 3, so one column stands for 3.
std::vector<TimelineRow> TwoRanks() {
  return {{"rank 0", {{0, 3, 'f', 0}, {3, 6, 'f', 1}, {9, 15, 'B', 0}}},
          {"rank 1", {{3, 6, 'f', 0}, {6, 9, 'B', 0, "'"}}}};
}

TEST(TimelineTest, OneColumnPerCommonStep) {
  const Timeline timeline = DrawTimeline(TwoRanks(), 80, /*color=*/false);
  EXPECT_TRUE(timeline.exact);
  EXPECT_EQ(timeline.column, 3);
  EXPECT_EQ(timeline.text,
            "  rank 0 f0  f1  ..  B0  B0\n"
            "  rank 1 ..  f0  B0' ..  ..\n");
}

// The common step is 1, and a hundred cells of three characters each do not fit.
TEST(TimelineTest, SamplesTheMiddleOfColumnsIfTooWide) {
  std::vector<TimelineRow> rows = {{"r", {{0, 40, 'f', 0}, {41, 100, 'W', 0}}}};
  const Timeline timeline = DrawTimeline(rows, 24, /*color=*/false);
  EXPECT_FALSE(timeline.exact);
  // The width 24 minus the name and three spaces leaves 20 columns of 5 units of time each.
  EXPECT_EQ(timeline.column, 5);
  EXPECT_EQ(timeline.text, "  r ffffffffWWWWWWWWWWWW\n");
  // A gap is drawn if it covers the middle of a column.
  rows[0].bars[0].end = 37;
  rows[0].bars[1].start = 38;
  EXPECT_EQ(DrawTimeline(rows, 24, false).text, "  r fffffff.WWWWWWWWWWWW\n");
}

TEST(TimelineTest, ColorsChangeWithTheLetterAlone) {
  const Timeline timeline = DrawTimeline({{"r", {{0, 1, 'f', 0}, {1, 2, 'f', 1}, {2, 3, 'x'}}}}, 80, /*color=*/true);
  EXPECT_EQ(timeline.text, "  r \033[34mf0 f1 \033[0m\033[33mx  \033[0m\n");
  EXPECT_EQ(DrawTimeline({{"r", {{0, 1, 'f', 0}, {1, 2, 'f', 1}, {2, 3, 'x'}}}}, 80, false).text, "  r f0 f1 x\n");
}

TEST(TimelineTest, RowsBeyondTheLimitAreSaid) {
  std::vector<TimelineRow> rows(kTimelineRows + 1, {"r", {{0, 1, 'f', 0}}});
  std::string text = DrawTimeline(rows, 80, false).text;
  EXPECT_EQ(text.substr(text.rfind("  r ")), "  r f0\n  (the first 64 of 65 ranks)\n");
  rows.pop_back();
  text = DrawTimeline(rows, 80, false).text;
  EXPECT_EQ(text.find("first"), std::string::npos);
  // The last line also counts rows that are not passed in.
  text = DrawTimeline({rows[0]}, 80, false, {.rows = 100, .end = 3}).text;
  EXPECT_EQ(text, "  r f0 .. ..\n  (the first 64 of 100 ranks)\n");
}

TEST(TimelineTest, NothingIsDrawnOfNothing) {
  EXPECT_EQ(DrawTimeline({}, 80, false).text, "");
  EXPECT_EQ(DrawTimeline({{"idle", {}}}, 80, false).text, "  idle \n");
}

}  // namespace
}  // namespace weft
