#include "simulator/metrics/trace_index.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/program/view_actions.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ShortNetwork : public NetworkModel {
 public:
  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t) const override { return TransferTime{{2}, {1}}; }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall&, const GroupForm&,
                                          absl::Span<const int64_t>) const override {
    return TransferTime{{3}, {1}};
  }
};

struct TracedRun {
  Program program;
  ProgramView view;
  EngineResult result;
};

// Forwards take 3, backwards 5.
void RunTraced(EngineOptions options, TracedRun& run) {
  const auto duration = [](int, int, ActionKind kind) -> absl::StatusOr<Time> { return Time{kind == FORWARD ? 3 : 5}; };
  absl::StatusOr<ProgramView> view = BuildProgramView(run.program, duration, {.join_steps = false});
  ASSERT_TRUE(view.ok()) << view.status();
  run.view = *std::move(view);
  options.trace = true;
  absl::StatusOr<EngineResult> result = RunEngine(run.view, ShortNetwork(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  run.result = *std::move(result);
}

// Returns the first step whose action has this name.
TracedStep Find(const TracedRun& run, TraceIndex& index, int32_t rank, const std::string& name) {
  for (size_t i = 0; i < run.result.ranks[rank].events.size(); ++i) {
    const TracedStep step = {rank, static_cast<int32_t>(i)};
    if (index.ActionOf(step).action->name() == name) return step;
  }
  ADD_FAILURE() << "no '" << name << "' on rank " << rank;
  return {};
}

std::vector<std::string> Names(TraceIndex& index, const std::vector<Cause>& causes) {
  std::vector<std::string> names;
  for (const Cause& cause : causes) {
    names.push_back(index.ActionOf(cause.step).action->name() + (cause.finish ? " finish" : " end"));
  }
  return names;
}

TEST(TraceIndex, TellsWhatStepsWaitFor) {
  TracedRun run;
  run.program = GPipeProgram(2, 2, 100);
  RunTraced({}, run);
  TraceIndex index(run.view, run.result, 1);
  EXPECT_THAT(index.BeforeReady(Find(run, index, 0, "F s0 m0")), IsEmpty());
  EXPECT_THAT(Names(index, index.BeforeReady(Find(run, index, 0, "send s0 m1"))),
              ElementsAre("send s0 m0 end", "F s0 m1 finish"));
  EXPECT_THAT(Names(index, index.BeforeReady(Find(run, index, 1, "F s1 m1"))),
              ElementsAre("F s1 m0 end", "recv s1 m1 finish"));
  const TracedStep send = Find(run, index, 0, "send s0 m1");
  const TracedStep recv = Find(run, index, 1, "recv s1 m1");
  EXPECT_EQ(index.PartnerOf(send), recv);
  EXPECT_EQ(index.PartnerOf(recv), send);
  EXPECT_EQ(index.StartsWith(send).front(), send);
  EXPECT_THAT(index.StartsWith(send), testing::Contains(recv));
}

TEST(TraceIndex, FindsWhoLeftTheSlot) {
  TracedRun run;
  run.program = GPipeProgram(2, 4, 100);
  RunTraced({.devices_per_node = 2, .compute_slots_per_node = 1}, run);
  TraceIndex index(run.view, run.result, 1);
  int waited = 0;
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (int32_t i = 0; i < static_cast<int32_t>(run.result.ranks[rank].events.size()); ++i) {
      const TracedStep step = {rank, i};
      if (index.StreamOf(step).key.kind != StreamClass::kCompute || index.At(step).ready == index.At(step).start) {
        continue;
      }
      ++waited;
      const auto holder = index.FreedSlot(step, {.devices_per_node = 2});
      ASSERT_TRUE(holder.has_value());
      EXPECT_EQ(index.At(*holder).end, index.At(step).start);
      EXPECT_LT(index.At(*holder).start, index.At(step).start);
    }
  }
  EXPECT_GT(waited, 0);
}

TEST(TraceIndex, PartnersAreMutualAndMembersStartTogether) {
  int transfers = 0, collectives = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TracedRun run;
    run.program = RandomEngineProgram(seed);
    const int32_t repetitions = 1 + static_cast<int32_t>(seed % 2);
    RunTraced({.repetitions = repetitions}, run);
    TraceIndex index(run.view, run.result, repetitions);
    for (int32_t rank = 0; rank < static_cast<int32_t>(run.result.ranks.size()); ++rank) {
      for (int32_t i = 0; i < static_cast<int32_t>(run.result.ranks[rank].events.size()); ++i) {
        const TracedStep step = {rank, i};
        if (IsTransfer(index.ActionOf(step).action->kind())) {
          ++transfers;
          const TracedStep partner = index.PartnerOf(step);
          ASSERT_GE(partner.rank, 0);
          EXPECT_EQ(index.PartnerOf(partner), step);
          EXPECT_EQ(index.At(partner).start, index.At(step).start);
        } else if (index.StreamOf(step).key.kind == StreamClass::kCollective) {
          const std::vector<TracedStep> all = index.StartsWith(step);
          collectives += all.size() > 1;
          EXPECT_EQ(static_cast<int64_t>(all.size()), FormSize(run.program.mesh(), index.StreamOf(step).key.group));
          for (const TracedStep& member : all) EXPECT_EQ(index.At(member).start, index.At(step).start);
        }
        // Everything that a step waits for happens before the step is ready.
        for (const Cause& cause : index.BeforeReady(step)) {
          const EngineEvent& event = index.At(cause.step);
          EXPECT_LE(cause.finish ? event.finish : event.end, index.At(step).ready);
        }
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(transfers, 500);
  EXPECT_GT(collectives, 200);
}

}  // namespace
}  // namespace weft::sim
