// How the steps of a segment become runs, seen in the view of a program with one action.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/program/program_view.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every compute step takes 10 ps.
absl::StatusOr<ProgramView> View(const Program& program, bool join_steps = true) {
  return BuildProgramView(program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{10}; },
                          {.join_steps = join_steps});
}

std::string Sum(const std::string& rest) {
  return "stream: COLLECTIVE kernel: GROUP_ALL_REDUCE inputs: 0 outputs: 0 "
         "collective { group { axes { axis: 'x' } } purpose: TENSOR algorithm: 'ring' } " +
         rest;
}

// Returns the steps of each run on streams of this kind.
std::vector<std::vector<int>> Runs(const TemplateView& t, StreamClass kind) {
  std::vector<std::vector<int>> runs;
  for (const StreamView& stream : t.streams) {
    if (stream.key.kind != kind) continue;
    const Entry& entry = t.entries[stream.entries[1].begin];
    for (int r = entry.runs.begin; r < entry.runs.end; ++r) {
      std::vector<int>& steps = runs.emplace_back();
      for (int i = t.runs[r].steps.begin; i < t.runs[r].steps.end; ++i) steps.push_back(t.steps[i].step);
    }
  }
  return runs;
}

TEST(SegmentRuns, StepsBetweenTwoCollectivesAreOneRun) {
  const Program program =
      OneSegmentProgram({"", "", Sum("deps: 1"), "deps: 2", "", "", Sum("deps: 5"), Sum(""), "deps: 6 deps: 7"});
  const auto view = View(program);
  ASSERT_TRUE(view.ok()) << view.status();
  const TemplateView& t = view->templates[0];
  EXPECT_THAT(Runs(t, StreamClass::kCompute), ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4, 5), ElementsAre(8)));
  EXPECT_THAT(Runs(t, StreamClass::kCollective), ElementsAre(ElementsAre(2), ElementsAre(6), ElementsAre(7)));
  EXPECT_EQ(t.collectives.size(), 1u);
  EXPECT_EQ(t.runs[t.entries[0].runs.begin + 1].cost_ps[0], 30);
  // If ranks take turns, every step is a run.
  const auto single = View(program, /*join_steps=*/false);
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(Runs(single->templates[0], StreamClass::kCompute).size(), 6u);
}

TEST(SegmentRuns, TheEndOfAnActionIsToldByAsFewStreamsAsPossible) {
  // The last step waits for the collective, so it alone ends the action.
  const Program waiting = OneSegmentProgram({"", Sum("deps: 0"), "deps: 1"});
  const auto one = View(waiting);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->templates[0].actions[0].tails, 1);
  EXPECT_TRUE(one->templates[0].actions[0].tail_objects.empty());
  // Nothing waits for the second collective, so both streams count for the end of the action.
  const Program open = OneSegmentProgram({"", Sum("deps: 0"), "deps: 1", Sum("deps: 0")});
  const auto two = View(open);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->templates[0].actions[0].tails, 2);
  // A detached collective does not count for the end of the action. A dependency with `detached` waits for it
  // separately.
  Program detached = OneSegmentProgram({"", Sum("deps: 0 detached: true"), ""});
  Action* next = detached.mutable_templates(0)->add_body();
  next->set_id(1);
  next->set_kind(FORWARD);
  next->add_deps()->set_action(0);
  const auto plain = View(detached);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->templates[0].actions[0].tails, 1);
  const auto waits = [](const TemplateView& t) {
    std::vector<IdleReason> reasons;
    for (const Entry& entry : t.entries) {
      if (entry.action != 1 || t.runs[entry.runs.begin].collective >= 0) continue;
      for (int i = entry.waits.begin; i < entry.waits.end; ++i) reasons.push_back(t.waits[i].reason);
    }
    return reasons;
  };
  EXPECT_THAT(waits(plain->templates[0]), IsEmpty());
  next->mutable_deps(0)->set_detached(true);
  const auto named = View(detached);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(waits(named->templates[0]), ElementsAre(IdleReason::kTensorCollective));
}

TEST(SegmentRuns, RefusesUnverifiedPrograms) {
  const auto message = [](const std::vector<std::string>& steps) {
    return std::string(View(OneSegmentProgram(steps)).status().message());
  };
  EXPECT_THAT(message({"deps: 0"}), HasSubstr("dep 0 is not an earlier step"));
  EXPECT_THAT(message({"stream: 17"}), HasSubstr("unknown stream 17"));
  EXPECT_THAT(message({"detached: true"}), HasSubstr("no step that is not detached"));
  EXPECT_THAT(message({}), HasSubstr("no step that is not detached"));
}

}  // namespace
}  // namespace weft::sim
