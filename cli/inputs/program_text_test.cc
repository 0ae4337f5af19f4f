#include "cli/inputs/program_text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/random_program.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// Any safe program can be shown, with every action of every rank.
TEST(ProgramText, ShowsEverySafeProgram) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomProgramOptions options;
    options.collectives = seed % 2 == 1;
    const Program program = RandomProgram(seed, options);
    ASSERT_EQ(VerifyProgram(program, {.allow_unfit = true, .completeness = false}), absl::OkStatus());
    const std::string summary = ProgramSummary(program);
    for (const Segment& segment : program.segments()) EXPECT_THAT(summary, HasSubstr(segment.name()));
    for (int64_t rank = 0; rank < MeshRanks(program.mesh()); ++rank) {
      const std::string listing = RankListing(program, rank);
      const Template& t = program.templates(TemplateOfRank(program, rank));
      for (const Action& action : t.body()) EXPECT_THAT(listing, HasSubstr(action.name()));
    }
  }
}

TEST(TraceTimeline, JoinsStepsAndTellsKindsApart) {
  Program program;
  Template* t = program.add_templates();
  const std::pair<ActionKind, int> actions[] = {{FORWARD, 0}, {FORWARD, 1}, {BACKWARD, 0}, {OPTIMIZER_STEP, 0}};
  Trace trace;
  trace.set_repetitions(1);
  RankTrace* rank = trace.add_ranks();
  rank->add_streams("send");
  rank->add_streams("compute");
  int id = 0, time = 0;
  for (const auto& [kind, microbatch] : actions) {
    Action* action = t->add_body();
    action->set_id(id);
    action->set_kind(kind);
    action->set_microbatch(microbatch);
    for (int step = 0; step < 2; ++step) {
      TraceEvent* event = rank->add_events();
      event->set_action(id);
      event->set_step(step);
      event->set_stream(1);
      event->set_start_ps(time);
      event->set_end_ps(time += 1000);
    }
    ++id;
    if (kind == FORWARD) time += 2000;
  }
  rank->add_events()->set_end_ps(1'000'000);  // On the send stream: not drawn.
  EXPECT_EQ(TraceTimeline(program, trace, 100, false),
            "  rank 0 f0 .. f1 .. B0 o\n"
            "  one column = 2 ns; f forward, B backward, o end of step\n");
}

TEST(TraceTimeline, DrawsEveryKindOfCompute) {
  Program program;
  Template* t = program.add_templates();
  Trace trace;
  trace.set_repetitions(1);
  RankTrace* rank = trace.add_ranks();
  rank->add_streams("compute");
  for (const ActionKind kind : {FORWARD, FORWARD_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT}) {
    Action* action = t->add_body();
    action->set_id(t->body_size());
    action->set_kind(kind);
    TraceEvent* event = rank->add_events();
    event->set_action(action->id());
    event->set_start_ps(1000 * (t->body_size() - 1));
    event->set_end_ps(1000 * t->body_size());
  }
  EXPECT_EQ(TraceTimeline(program, trace, 100, false),
            "  rank 0 f0 P0 I0 W0\n"
            "  one column = 1 ns; f forward, I input gradient, W weight gradient, P forward and backward in one, o end "
            "of step\n");
}

TEST(RankListing, CollectivesAndWaitsForDetachedSteps) {
  Program program;
  program.mutable_mesh()->add_axes()->set_name("data");
  program.mutable_mesh()->mutable_axes(0)->set_size(4);
  Template* t = program.add_templates();
  t->add_buffers()->set_name("shard");
  Action* gather = t->add_body();
  gather->set_id(1);
  gather->set_kind(ALL_GATHER);
  gather->set_algorithm("ring");
  gather->set_purpose(GATHER_WEIGHTS);
  gather->add_sources(0);
  AxisSubset* data = gather->mutable_group()->add_axes();
  data->set_axis("data");
  data->set_block(2);
  Dependency* dep = gather->add_deps();
  dep->set_action(0);
  dep->set_distance(1);
  dep->set_detached(true);
  EXPECT_THAT(RankListing(program, 3),
              HasSubstr("ring over ranks 2 3 (gather weights): shard; after 0^-1 (and its detached steps)"));
}

TEST(RankListing, TellsTransfersApart) {
  Program program;
  program.set_compute_order(BACKWARD_FIRST);
  program.mutable_mesh()->add_axes()->set_name("pipe");
  program.mutable_mesh()->mutable_axes(0)->set_size(2);
  program.add_skips()->set_name("encoder");
  Template* t = program.add_templates();
  t->add_buffers()->set_name("x");
  Action* send = t->add_body();
  send->set_kind(SEND);
  send->add_sources(0);
  send->set_skip(1);
  send->set_transfer_group(3);
  send->mutable_peer()->add_at()->set_axis("pipe");
  send->mutable_peer()->mutable_at(0)->set_index(1);
  EXPECT_THAT(RankListing(program, 0), HasSubstr("to rank 1, skip edge encoder, group 3: x"));
  EXPECT_THAT(ProgramSummary(program), HasSubstr("\nmessage-driven: backward first\n"));
}

}  // namespace
}  // namespace weft
