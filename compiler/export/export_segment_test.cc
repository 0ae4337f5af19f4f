#include "compiler/export/export_segment.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/segments_testing.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"
#include "proto/util/value_bytes.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;

// Records, for each 64 bytes of a segment's operands, the value that was last written there; -1 for none.
class Written {
 public:
  explicit Written(const StageSegment& segment) {
    for (const Operand& operand : segment.segment.operands()) {
      last_.emplace_back((operand.bytes() + kAlignment - 1) / kAlignment, -1);
    }
  }
  void Write(const Value& value, int index) {
    for (int& last : WritersOf(value)) last = index;
  }
  // True if all bytes of the value still hold what was written as value `index`. With `from_elsewhere`, bytes that were
  // never written also count.
  bool IsStill(const Value& value, int index, bool from_elsewhere) {
    for (const int last : WritersOf(value)) {
      if (last != index && !(from_elsewhere && last == -1)) return false;
    }
    return true;
  }

 private:
  absl::Span<int> WritersOf(const Value& value) {
    const int64_t blocks = (*ValueBytes(value) + kAlignment - 1) / kAlignment;
    return absl::MakeSpan(last_[value.operand()]).subspan(value.offset() / kAlignment, blocks);
  }

  std::vector<std::vector<int>> last_;
};

std::vector<SegmentSet> Sets() {
  std::vector<SegmentSet> sets;
  for (const int stages : {1, 2}) {
    for (const bool half : {false, true}) {
      SegmentOptions options = Options(stages);
      if (half) options.precision.set_compute(BF16);
      sets.push_back(Compile(SmallRecipe(), options));
    }
  }
  return sets;
}

TEST(ExportSegment, ValuesLieInTheirOperandsAligned) {
  for (const SegmentSet& set : Sets()) {
    ASSERT_FALSE(set.segments.empty());
    for (const StageSegment& segment : set.segments) {
      ASSERT_EQ(segment.operands.size(), segment.segment.operands_size());
      for (const Value& value : segment.segment.values()) {
        EXPECT_EQ(value.offset() % kAlignment, 0) << value.name();
        EXPECT_GE(value.offset(), 0) << value.name();
        EXPECT_LE(value.offset() + *ValueBytes(value), segment.segment.operands(value.operand()).bytes())
            << segment.segment.name() << " " << value.name();
      }
    }
  }
}

// Storage is reused, but never too early. In the order of steps, each step reads the value that was written for it, and
// reads nothing from the workspace that no step has written.
TEST(ExportSegment, StepsReadWhatEarlierStepsWrote) {
  int reads = 0, shared = 0;
  for (const SegmentSet& set : Sets()) {
    for (const StageSegment& segment : set.segments) {
      Written written(segment);
      int64_t made = 0;
      for (const Step& step : segment.segment.steps()) {
        for (const int v : step.inputs()) {
          const Value& value = segment.segment.values(v);
          const bool workspace = segment.operands[value.operand()].role == ir::Role::Workspace;
          EXPECT_TRUE(written.IsStill(value, v, !workspace))
              << segment.segment.name() << ", step '" << step.name() << "' reads '" << value.name() << "'";
          ++reads;
        }
        for (const int v : step.outputs()) {
          const Value& value = segment.segment.values(v);
          written.Write(value, v);
          if (segment.operands[value.operand()].role == ir::Role::Workspace) made += *ValueBytes(value);
        }
      }
      for (const Operand& operand : segment.segment.operands()) shared += operand.bytes() < made;
    }
  }
  EXPECT_GT(reads, 500);
  // Without this check, the test could pass although no place was reused.
  EXPECT_GT(shared, 0);
}

// A stage's backward finds what its forward saves at the same places.
TEST(ExportSegment, BackwardsFindWhatForwardsSave) {
  for (const SegmentSet& set : Sets()) {
    int found = 0;
    for (const StageSegment& backward : set.segments) {
      for (const StageSegment& forward : set.segments) {
        if (forward.kind != ir::SegmentKind::Forward || backward.kind != ir::SegmentKind::Backward) continue;
        if (forward.stage != backward.stage) continue;
        for (const Value& read : backward.segment.values()) {
          if (backward.operands[read.operand()].role != ir::Role::Saved) continue;
          bool same = false;
          for (const Value& made : forward.segment.values()) {
            same =
                same || (forward.operands[made.operand()].role == ir::Role::Saved && made.offset() == read.offset() &&
                         made.dtype() == read.dtype() && *ValueBytes(made) == *ValueBytes(read));
          }
          EXPECT_TRUE(same) << backward.segment.name() << " " << read.name();
          ++found;
        }
      }
    }
    EXPECT_GT(found, 10);
  }
}

}  // namespace
}  // namespace weft
