#include "tests/e2e/collective_volume.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft {
namespace {

int64_t ElementsOf(const Value& value) {
  int64_t elements = 1;
  for (int64_t extent : value.shape()) elements *= extent;
  return elements;
}

}  // namespace

std::vector<std::string> CollectivesOf(const Program& program, const std::string& name) {
  std::vector<std::string> moved;
  for (const Segment& segment : program.segments()) {
    if (segment.name() != name) continue;
    for (const Step& step : segment.steps()) {
      if (step.stream() != COLLECTIVE) continue;
      EXPECT_EQ(step.collective().group().axes_size(), 1) << step.name();
      EXPECT_EQ(step.inputs_size(), 1) << step.name();
      const std::string& axis = step.collective().group().axes(0).axis();
      const int64_t ranks = AxisSize(program.mesh(), axis);
      const bool gather = step.kernel() == GROUP_ALL_GATHER;
      const int64_t whole = ElementsOf(segment.values(gather ? step.outputs(0) : step.inputs(0)));
      const int64_t rounds = step.kernel() == GROUP_ALL_REDUCE ? 2 : 1;
      const char* what = step.collective().purpose() == GATHER_WEIGHTS      ? "weights"
                         : step.collective().purpose() == SCATTER_GRADIENTS ? "gradients"
                                                                            : "tensor";
      moved.push_back(absl::StrCat(what, " ", axis, " ", rounds * (ranks - 1) * whole / ranks));
    }
  }
  return moved;
}

}  // namespace weft
