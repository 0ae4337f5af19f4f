#include <string>

#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

Program Read(const std::string& text) {
  Program program;
  const absl::Status read = ParseMessage(text, "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  return program;
}

// The backward of a gated unit and of the norm in front of the unit. The products read the values `first` and `second`.
std::string Unit(const char* first, const char* second, const char* purpose = "TENSOR") {
  return std::string(
             "segments {"
             "steps { name: \"gate\" kernel: SWIGLU_BACKWARD stream: COMPUTE inputs: 0 outputs: 1 outputs: 2 }"
             "steps { name: \"up\" kernel: MATMUL stream: COMPUTE inputs: ") +
         first +
         " inputs: 9 outputs: 3 }"
         "steps { name: \"down\" kernel: MATMUL stream: COMPUTE inputs: " +
         second +
         " inputs: 10 outputs: 4 }"
         "steps { name: \"add\" kernel: ADD stream: COMPUTE inputs: 3 inputs: 4 outputs: 5 }"
         "steps { name: \"sum\" kernel: GROUP_ALL_REDUCE stream: COLLECTIVE inputs: 5 outputs: 5 deps: 3"
         "        collective { purpose: " +
         purpose +
         " } }"
         "steps { name: \"norm\" kernel: RMS_NORM_BACKWARD stream: COMPUTE inputs: 5 outputs: 6 deps: 4 }"
         "steps { name: \"next\" kernel: GROUP_ALL_REDUCE stream: COLLECTIVE inputs: 6 outputs: 6 deps: 5"
         "        collective { purpose: TENSOR } } }";
}

TEST(GateSums, OneForEachProduct) {
  Program program = Read(Unit("1", "2"));
  TakeGateSumsApart(&program);
  const Segment& s = program.segments(0);
  ASSERT_EQ(s.steps_size(), 8);
  for (int i : {4, 5}) {
    EXPECT_EQ(s.steps(i).name(), "sum");
    EXPECT_EQ(s.steps(i).inputs(0), 5);
    // Each sum waits for the step before it.
    ASSERT_EQ(s.steps(i).deps_size(), 1);
    EXPECT_EQ(s.steps(i).deps(0), i - 1);
  }
  // A step that waited for the sum waits for both sums.
  EXPECT_EQ(s.steps(6).name(), "norm");
  EXPECT_EQ(s.steps(6).deps(0), 5);
  EXPECT_EQ(s.steps(7).deps(0), 6);
}

TEST(GateSums, OthersStayAsTheyAre) {
  // Nothing changes if one or both products read another value, or if the sum is not between ranks of the layer.
  for (const std::string& text : {Unit("1", "8"), Unit("7", "8"), Unit("1", "2", "GRADIENT_SYNC")}) {
    Program program = Read(text);
    const std::string before = program.SerializeAsString();
    TakeGateSumsApart(&program);
    EXPECT_EQ(program.SerializeAsString(), before);
  }
}

}  // namespace
}  // namespace weft::sim
