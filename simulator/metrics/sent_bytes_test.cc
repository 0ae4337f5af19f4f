#include "simulator/metrics/sent_bytes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

ProgramView View(const Program& program) {
  auto view = BuildProgramView(program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; }, {});
  EXPECT_TRUE(view.ok()) << view.status();
  return view.ok() ? *std::move(view) : ProgramView{};
}

TEST(SentBytes, Transfers) {
  const Program program = GPipeProgram(3, 4, 100);
  const ProgramView view = View(program);
  // The first and the last rank send one message for each microbatch, the rank between them sends two.
  EXPECT_THAT(BytesSent(program.mesh(), view.templates[0]), ElementsAre(Pair("transfer", 400)));
  EXPECT_THAT(BytesSent(program.mesh(), view.templates[1]), ElementsAre(Pair("transfer", 800)));
  EXPECT_THAT(BytesSent(program.mesh(), view.templates[2]), ElementsAre(Pair("transfer", 400)));
}

// Adds a collective over all `n` ranks of `axis` to the forward. The whole buffer has `elements` bf16 elements.
void AddStep(Program& program, Kernel kernel, const std::string& axis, Purpose purpose, int64_t elements, int64_t n) {
  Segment& segment = *program.mutable_segments(0);
  const auto value = [&](int64_t own) {
    Value* added = segment.add_values();
    added->set_dtype(BF16);
    added->add_shape(own);
    return segment.values_size() - 1;
  };
  Step* step = segment.add_steps();
  step->set_stream(COLLECTIVE);
  step->set_kernel(kernel);
  step->add_inputs(value(kernel == GROUP_ALL_GATHER ? elements / n : elements));
  step->add_outputs(value(kernel == GROUP_REDUCE_SCATTER ? elements / n : elements));
  step->mutable_collective()->set_purpose(purpose);
  step->mutable_collective()->set_algorithm("ring");
  step->mutable_collective()->mutable_group()->add_axes()->set_axis(axis);
}

TEST(SentBytes, EquationsOneToThreeForRings) {
  Program program = GPipeProgram(1, 3, 100);
  for (const auto& [axis, size] : {std::pair<const char*, int64_t>{"x", 2}, {"z", 4}}) {
    program.mutable_mesh()->add_axes()->set_name(axis);
    program.mutable_mesh()->mutable_axes(program.mesh().axes_size() - 1)->set_size(size);
  }
  AddStep(program, GROUP_ALL_GATHER, "z", GATHER_WEIGHTS, 1000, 4);
  AddStep(program, GROUP_ALL_REDUCE, "x", TENSOR, 600, 2);
  AddStep(program, GROUP_ALL_REDUCE, "z", TENSOR, 200, 4);
  AddStep(program, GROUP_REDUCE_SCATTER, "z", SCATTER_GRADIENTS, 400, 4);
  const ProgramView view = View(program);
  // Three microbatches, 2 bytes per element, G members: a gather or scatter sends (G-1)/G of its bytes, an all-reduce
  // twice as much.
  EXPECT_THAT(BytesSent(program.mesh(), view.templates[0]),
              ElementsAre(Pair("gather_weights", 3 * 2 * 750), Pair("scatter_gradients", 3 * 2 * 300),
                          Pair("tensor", 3 * 2 * (600 + 300))));
}

TEST(SentBytes, SumsSaturate) {
  EXPECT_EQ(AddBytes(INT64_MAX - 1, 2), INT64_MAX);
  EXPECT_EQ(AddBytes(1, 2), 3);
}

}  // namespace
}  // namespace weft::sim
