#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

constexpr char kForward[] = R"(segments {
    operands { name: "x" bytes: 64 }
    values { dtype: BF16 shape: 4 shape: 8 }
    values { name: "out" dtype: BF16 shape: 4 shape: 2 offset: 64 }
    steps { name: "wte" kernel: EMBEDDING }
    steps { name: "h.0.norm" kernel: LAYER_NORM }
    steps { name: "h.0.gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE collective { purpose: GATHER_WEIGHTS } }
    steps { name: "h.0.up" kernel: MATMUL deps: 2 }
    steps { name: "h.0.down" kernel: MATMUL inputs: 0 inputs: 0 outputs: 1 }
    steps { name: "h.0.down.sum" kernel: GROUP_ALL_REDUCE stream: COLLECTIVE inputs: 1 outputs: 1 deps: 4 }
    steps { name: "h.0.residual" kernel: ADD inputs: 1 outputs: 1 deps: 5 }
    steps { name: "h.1.norm" kernel: LAYER_NORM deps: 6 }
    steps { name: "h.1.down" kernel: MATMUL }
    steps { name: "ln_f" kernel: LAYER_NORM } })";

constexpr char kActions[] = R"(templates { body { id: 0 kind: FORWARD segment: 0 }
                                           body { id: 1 kind: BACKWARD segment: 1 }
                                           body { id: 2 kind: BACKWARD segment: 1 } })";

// Returns the backward after RecomputeWholeLayers.
Segment Whole(const std::string& backward, const std::string& forward = kForward) {
  Program program;
  const absl::Status read = ParseMessage(forward + " segments {" + backward + "} " + kActions, "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  RecomputeWholeLayers(&program);
  return program.segments(1);
}

std::vector<std::string> Names(const Segment& segment) {
  std::vector<std::string> names;
  for (const Step& step : segment.steps()) names.push_back(step.name());
  return names;
}

TEST(RecomputeWholeLayers, HandlesValuesThatOnlyTheNextLayerReads) {
  const Segment s = Whole(R"(values { dtype: FP32 shape: 1 }
    steps { name: "h.1.norm" kernel: LAYER_NORM }
    steps { name: "h.1.down.dx" kernel: MATMUL }
    steps { name: "h.0.norm" kernel: LAYER_NORM }
    steps { name: "h.0.gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE collective { purpose: GATHER_WEIGHTS } }
    steps { name: "h.0.up" kernel: MATMUL deps: 3 }
    steps { name: "h.0.down.dx" kernel: MATMUL }
    steps { name: "h.0.up.dx" kernel: MATMUL deps: 5 })");
  EXPECT_EQ(Names(s),
            (std::vector<std::string>{"h.1.norm", "h.1.down", "h.1.down.dx", "h.0.norm", "h.0.gather", "h.0.up",
                                      "h.0.down", "h.0.down.sum", "h.0.residual", "h.0.down.dx", "h.0.up.dx"}));
  // The steps keep their dependencies.
  ASSERT_EQ(s.steps(5).deps_size(), 1);
  EXPECT_EQ(s.steps(5).deps(0), 4);
  ASSERT_EQ(s.steps(7).deps_size(), 1);
  EXPECT_EQ(s.steps(7).deps(0), 6);
  ASSERT_EQ(s.steps(8).deps_size(), 1);
  EXPECT_EQ(s.steps(8).deps(0), 7);
  EXPECT_EQ(s.steps(10).deps(0), 9);
  // The copied steps keep the shapes that they have in the forward.
  ASSERT_EQ(s.steps(6).inputs_size(), 2);
  EXPECT_EQ(s.values(s.steps(6).inputs(0)).shape(1), 8);
  EXPECT_EQ(s.values(s.steps(6).outputs(0)).shape(1), 2);
  EXPECT_EQ(s.steps(6).inputs(0), s.steps(6).inputs(1));
  EXPECT_EQ(s.values(s.steps(6).outputs(0)).offset(), 0);
  EXPECT_EQ(s.values_size(), 3);
}

// With the prefetch of docs/overlap.md, the gathers for the next product are among the steps before it. Here the gather
// of layer 1 comes before the last product of layer 0. If gathers block, the gather of the backward comes after the
// recomputed steps.
TEST(RecomputeWholeLayers, AmongGathersForWhatComesNext) {
  constexpr char kPrefetched[] = R"(segments {
    operands { name: "x" bytes: 64 }
    values { dtype: BF16 shape: 4 shape: 8 }
    steps { name: "h.0.gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE collective { purpose: GATHER_WEIGHTS } }
    steps { name: "wte" kernel: EMBEDDING }
    steps { name: "h.0.down.gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE collective { purpose: GATHER_WEIGHTS } }
    steps { name: "h.0.up" kernel: MATMUL deps: 0 }
    steps { name: "h.1.gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE collective { purpose: GATHER_WEIGHTS } }
    steps { name: "h.0.down" kernel: MATMUL deps: 2 }
    steps { name: "h.0.down.sum" kernel: GROUP_ALL_REDUCE stream: COLLECTIVE deps: 5 }
    steps { name: "h.1.norm" kernel: LAYER_NORM }
    steps { name: "h.1.down" kernel: MATMUL deps: 4 } })";
  for (const bool blocking : {false, true}) {
    const std::string gather =
        "steps { name: 'h.0.down.gather' kernel: GROUP_ALL_GATHER stream: COLLECTIVE collective { purpose: "
        "GATHER_WEIGHTS } } ";
    const std::string up = "steps { name: 'h.0.up' kernel: MATMUL } ";
    const Segment s = Whole("values { dtype: FP32 } " + (blocking ? up + gather : gather + up) +
                                "steps { name: 'h.0.down.dx' kernel: MATMUL deps: " + (blocking ? "1" : "0") + " }",
                            kPrefetched);
    const std::vector<std::string> first = blocking ? std::vector<std::string>{"h.0.up", "h.0.down.gather"}
                                                    : std::vector<std::string>{"h.0.down.gather", "h.0.up"};
    EXPECT_EQ(Names(s), (std::vector<std::string>{first[0], first[1], "h.0.down", "h.0.down.sum", "h.0.down.dx"}));
    // The product waits for its weights.
    ASSERT_EQ(s.steps(2).deps_size(), 1);
    EXPECT_EQ(s.steps(2).deps(0), blocking ? 1 : 0);
    ASSERT_EQ(s.steps(3).deps_size(), 1);
    EXPECT_EQ(s.steps(3).deps(0), 2);
  }
}

TEST(RecomputeWholeLayers, PartsOfLayersAndWholeOnesStay) {
  for (const char* backward : {
           // Backwards that recompute no step of a layer, the middle of a layer, a part with a gap, or a whole layer.
           R"(steps { name: "h.0.down.dx" kernel: MATMUL })",
           R"(steps { name: "h.0.up" kernel: MATMUL } steps { name: "h.0.down.dx" kernel: MATMUL })",
           R"(steps { name: "h.0.norm" kernel: LAYER_NORM } steps { name: "h.0.down" kernel: MATMUL })",
           R"(steps { name: "h.1.norm" kernel: LAYER_NORM } steps { name: "h.1.down" kernel: MATMUL })",
           // Backwards with another kernel of the same name, or with a step of no layer.
           R"(steps { name: "h.0.norm" kernel: RMS_NORM })",
           R"(steps { name: "wte" kernel: EMBEDDING })",
       }) {
    Segment expected;
    ASSERT_TRUE(ParseMessage(backward, "test", &expected).ok());
    EXPECT_EQ(Names(Whole(backward)), Names(expected)) << backward;
  }
}

}  // namespace
}  // namespace weft::sim
