// Replaying what a rank does alone gives the same result, in every field, as simulating it step by step every time.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/engine/engine.h"
#include "simulator/engine/fold.h"
#include "simulator/engine/hash_below_testing.h"
#include "simulator/engine/same_result_testing.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

// A network with few different times, zero among them, so that many things happen at one instant.
class AlikeNetwork : public NetworkModel {
 public:
  explicit AlikeNetwork(uint64_t seed) : seed_(seed) {}

  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t bytes) const override {
    return TransferTime{{HashBelow(seed_, {bytes}, 5)}, {HashBelow(seed_, {2}, 3)}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm&,
                                          absl::Span<const int64_t> members) const override {
    const int64_t size = static_cast<int64_t>(members.size());
    return TransferTime{{HashBelow(seed_, {3, size, call.parts[0].elements}, 9)}, {HashBelow(seed_, {size}, 3)}};
  }

 private:
  uint64_t seed_;
};

// Makes a segment of steps on the compute stream and collectives over axis x. In every second program some steps are
// detached.
Segment TensorSegment(uint64_t seed, int64_t index, int64_t members) {
  Segment segment;
  segment.set_name(absl::StrCat("tensor", index));
  const int64_t steps = 2 + HashBelow(seed, {index, 1}, 12);
  for (int64_t i = 0; i < steps; ++i) {
    Step* step = segment.add_steps();
    step->set_name(absl::StrCat("step", i));
    step->set_stream(COMPUTE);
    step->set_detached(seed % 2 == 1 && i + 1 < steps && HashBelow(seed, {index, i, 6}, 8) == 0);
    if (HashBelow(seed, {index, i, 2}, 5) < 2) {
      step->set_stream(COLLECTIVE);
      step->set_kernel(GROUP_ALL_REDUCE);
      step->mutable_collective()->mutable_group()->add_axes()->set_axis("x");
      step->mutable_collective()->set_purpose(TENSOR);
      step->mutable_collective()->set_algorithm("ring");
      Value* value = segment.add_values();
      value->set_dtype(FP32);
      value->add_shape(members * (1 + HashBelow(seed, {index, i, 3}, 3)));
      step->add_inputs(segment.values_size() - 1);
      step->add_outputs(segment.values_size() - 1);
    }
    // A step mostly depends on the step before it, as in a layer.
    for (int64_t dep = 0; dep < i; ++dep) {
      const int64_t often = i - dep == 1 ? 4 : 1;
      if (HashBelow(seed, {index, i, dep, 4}, 6) < often) step->add_deps(static_cast<int32_t>(dep));
    }
  }
  return segment;
}

Program TensorProgram(uint64_t seed) {
  Program program = RandomEngineProgram(seed);
  program.set_compute_order(STATIC_ORDER);
  constexpr int64_t kSizes[] = {1, 2, 4};
  int64_t members = 1;
  for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) {
    if (axis.name() != "x") continue;
    members = kSizes[HashBelow(seed, {5}, 3)];
    axis.set_size(members);
  }
  for (int s = 1; s < program.segments_size(); ++s) {
    const auto operands = program.segments(s).operands();
    *program.mutable_segments(s) = TensorSegment(seed, s, members);
    *program.mutable_segments(s)->mutable_operands() = operands;
  }
  // Let other actions wait for detached steps.
  for (Template& t : *program.mutable_templates()) {
    for (auto* const list : {t.mutable_prologue(), t.mutable_body(), t.mutable_epilogue()}) {
      for (Action& action : *list) {
        for (Dependency& dep : *action.mutable_deps()) dep.set_detached(seed % 2 == 1 && dep.action() % 3 != 0);
      }
    }
  }
  return program;
}

ProgramView MakeView(const Program& program, uint64_t seed) {
  const auto costs = [&](const StepUse& use) -> absl::StatusOr<LoadTimes> {
    const bool copy = program.segments(use.segment).steps(use.step).stream() != COMPUTE;
    const int64_t cost = HashBelow(seed, {use.segment, use.step, use.kind}, 6);
    // In every third program collectives slow nothing down.
    const int64_t more = copy || cost == 0 || seed % 3 == 0 ? 0 : HashBelow(seed, {use.segment, use.step}, 4);
    return LoadTimes{Time{cost}, Time{cost + more}, Time{cost + 2 * more}};
  };
  ProgramViewOptions options;
  if (seed % 5 == 1) options.speed_of_rank.assign(MeshRanks(program.mesh()), 700'000);
  // Only one rank is slower.
  if (seed % 5 == 2) {
    options.speed_of_rank.assign(MeshRanks(program.mesh()), 1'000'000);
    options.speed_of_rank.back() = 700'000;
  }
  auto view = BuildProgramView(program, costs, options);
  EXPECT_TRUE(view.ok()) << view.status();
  return *std::move(view);
}

// Checks runs of all ranks and runs of folded ranks.
TEST(EngineStretch, ChangesNoResult) {
  int64_t repeated = 0, disturbed = 0, slowed = 0, stopped = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = TensorProgram(seed);
    const ProgramView view = MakeView(program, seed);
    const AlikeNetwork network(seed);
    const auto all = LinkRanks(view);
    ASSERT_TRUE(all.ok()) << all.status();
    const std::optional<RankLinks> fold = FoldRanks(view, network, *all);
    for (EngineOptions options : {EngineOptions{.repetitions = 1 + static_cast<int>(seed % 3)},
                                  EngineOptions{.repetitions = 16, .stop_when_steady = true}}) {
      options.repeat_stretches = false;
      const auto stepwise = RunEngine(view, *all, network, options);
      ASSERT_TRUE(stepwise.ok()) << stepwise.status();
      EXPECT_EQ(stepwise->repeated_stretches, 0);
      options.repeat_stretches = true;
      for (const RankLinks* links : {&*all, fold ? &*fold : nullptr}) {
        if (links == nullptr) continue;
        const auto result = RunEngine(view, *links, network, options);
        ASSERT_TRUE(result.ok()) << result.status();
        ExpectSame(*stepwise, *result);
        repeated += result->repeated_stretches;
        disturbed += result->disturbed_stretches;
        stopped += options.stop_when_steady ? result->repeated_stretches : 0;
        if (result->repeated_stretches > 0 && stepwise->ranks[0].slowed.ps > 0) ++slowed;
      }
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(repeated, 1000);
  EXPECT_GT(disturbed, 20);
  EXPECT_GT(slowed, 20);
  EXPECT_GT(stopped, 500);
}

}  // namespace
}  // namespace weft::sim
