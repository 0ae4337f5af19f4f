#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;

// Values: 0 rows dy, 1 weight, 2 dx, 3 saved input, 4 gradient of the weight, 5 gradient of the bias, 6 second weight.
constexpr char kValues[] = R"(
  operands { name: "a" bytes: 512 }
  values { offset: 0 shape: 8 } values { offset: 64 shape: 8 } values { offset: 128 shape: 8 }
  values { offset: 192 shape: 8 } values { offset: 256 shape: 8 } values { offset: 320 shape: 8 }
  values { offset: 384 shape: 8 } )";

Program OneSegment(const std::string& steps) {
  Program program;
  const absl::Status read = ParseMessage(std::string("segments {") + kValues + steps + "}", "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  return program;
}

Segment Moved(const std::string& steps) {
  Program program = OneSegment(steps);
  SumBiasesLast(&program);
  return program.segments(0);
}

std::vector<std::string> Names(const Segment& segment) {
  std::vector<std::string> names;
  for (const Step& step : segment.steps()) names.push_back(step.name());
  return names;
}

TEST(BiasSums, StandBehindBothProductsOfTheLayer) {
  const Segment s = Moved(R"(
    steps { name: "gelu" kernel: GELU_BACKWARD outputs: 0 }
    steps { name: "db" kernel: BIAS_GRADIENT inputs: 0 outputs: 5 deps: 0 }
    steps { name: "dx" kernel: MATMUL inputs: [0, 1] outputs: 2 deps: 0 }
    steps { name: "sum" kernel: GROUP_ALL_REDUCE stream: COLLECTIVE inputs: 2 outputs: 2 deps: 2 }
    steps { name: "dw" kernel: MATMUL inputs: [0, 3] outputs: 4 deps: 1 }
    steps { name: "norm" kernel: LAYER_NORM_BACKWARD inputs: 2 outputs: 2 deps: 3 })");
  // The bias gradient must stay in front of a step that waits for it. Here dw waits for it.
  EXPECT_THAT(Names(s), ElementsAre("gelu", "dx", "db", "sum", "dw", "norm"));
  EXPECT_THAT(s.steps(3).deps(), ElementsAre(1));
  EXPECT_THAT(s.steps(4).deps(), ElementsAre(2));
  EXPECT_THAT(s.steps(5).deps(), ElementsAre(3));

  const Segment free = Moved(R"(
    steps { name: "db" kernel: BIAS_GRADIENT inputs: 0 outputs: 5 }
    steps { name: "dx" kernel: MATMUL inputs: [0, 1] outputs: 2 }
    steps { name: "sum" kernel: GROUP_ALL_REDUCE stream: COLLECTIVE inputs: 2 outputs: 2 deps: 1 }
    steps { name: "dw" kernel: MATMUL inputs: [3, 0] outputs: 4 }
    steps { name: "norm" kernel: LAYER_NORM_BACKWARD inputs: 2 outputs: 2 deps: 2 })");
  EXPECT_THAT(Names(free), ElementsAre("dx", "sum", "dw", "db", "norm"));
  EXPECT_THAT(free.steps(1).deps(), ElementsAre(0));
  EXPECT_THAT(free.steps(4).deps(), ElementsAre(1));
}

TEST(BiasSums, LayersWithTheSameRowsKeepTheirOwn) {
  const Segment s = Moved(R"(
    steps { name: "a.db" kernel: BIAS_GRADIENT inputs: 0 outputs: 5 }
    steps { name: "a.dx" kernel: MATMUL inputs: [0, 1] outputs: 2 }
    steps { name: "b.db" kernel: BIAS_GRADIENT inputs: 0 outputs: 4 }
    steps { name: "b.dx" kernel: MATMUL inputs: [0, 6] outputs: 3 })");
  EXPECT_THAT(Names(s), ElementsAre("a.dx", "a.db", "b.dx", "b.db"));
}

TEST(BiasSums, StayInFrontOfWhatTheyMustNotPass) {
  // The bias gradient stays in front of a step that reads it.
  EXPECT_THAT(Names(Moved(R"(steps { name: "db" kernel: BIAS_GRADIENT inputs: 0 outputs: 5 }
    steps { name: "cast" kernel: CAST inputs: 5 outputs: 6 }
    steps { name: "dx" kernel: MATMUL inputs: [0, 1] outputs: 2 })")),
              ElementsAre("db", "cast", "dx"));
  // The bias gradient stays in front of a step that overwrites the rows with another tensor.
  EXPECT_THAT(Names(Moved(R"(steps { name: "db" kernel: BIAS_GRADIENT inputs: 0 outputs: 5 }
    steps { name: "dx" kernel: MATMUL inputs: [0, 1] outputs: 2 }
    steps { name: "gelu" kernel: GELU_BACKWARD inputs: 2 outputs: 0 }
    steps { name: "next" kernel: MATMUL inputs: [0, 6] outputs: 3 })")),
              ElementsAre("dx", "db", "gelu", "next"));
  // If no product reads the rows, the bias gradient stays.
  EXPECT_THAT(Names(Moved(R"(steps { name: "db" kernel: BIAS_GRADIENT inputs: 0 outputs: 5 }
    steps { name: "dx" kernel: MATMUL inputs: [3, 1] outputs: 2 })")),
              ElementsAre("db", "dx"));
}

TEST(BiasSums, AreFound) {
  EXPECT_TRUE(HasBiasSums(OneSegment(R"(steps { kernel: BIAS_GRADIENT inputs: 0 outputs: 5 })")));
  EXPECT_FALSE(HasBiasSums(OneSegment(R"(steps { kernel: MATMUL inputs: [0, 1] outputs: 5 })")));
}

}  // namespace
}  // namespace weft::sim
