// Tests that everything looked up for a rank is as its template says: places, order, partners.
#include "executor/program/prepared_program.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interface/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

// A rank's part of a program, and what preparing it needs.
struct Prepared {
  Prepared(const Program& of_program, int rank) : program(of_program) {
    endpoints = *(*FindTransport("inproc"))->open(static_cast<int>(MeshRanks(program.mesh())));
    const Template& t = program.templates(TemplateOfRank(program, rank));
    arena = *Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes());
    made = PrepareProgram(program, *endpoints[rank], *arena);
  }

  const Program program;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::unique_ptr<Arena> arena;
  absl::StatusOr<std::unique_ptr<PreparedProgram>> made;
};

// Programs with rounded-up parts, with several axes, with steps that are collectives, and a pipeline with transfers.
std::vector<Program> Programs() {
  return {TinyProgram(), SplitProgram(), SplitProgram(true), SplitProgram(true, 3, 2, 0, 16, 3)};
}

TEST(PreparedProgram, ActionsAndWhatTheyWaitForAreTheTemplates) {
  for (const Program& program : Programs()) {
    for (int rank = 0; rank < MeshRanks(program.mesh()); ++rank) {
      const Prepared prepared(program, rank);
      ASSERT_TRUE(prepared.made.ok()) << prepared.made.status();
      const PreparedProgram& made = **prepared.made;
      const Template& t = prepared.program.templates(TemplateOfRank(program, rank));
      EXPECT_EQ(made.rank_template, &t);
      ASSERT_EQ(made.actions.size(), t.prologue_size() + t.body_size() + t.epilogue_size());
      int64_t steps = 0;
      for (const PreparedAction& action : made.actions) {
        ASSERT_EQ(action.deps.size(), action.action->deps_size());
        for (int d = 0; d < action.action->deps_size(); ++d) {
          EXPECT_EQ(made.actions[action.deps[d].action].action->id(), action.action->deps(d).action());
          EXPECT_EQ(action.deps[d].distance, action.action->deps(d).distance());
          EXPECT_TRUE(made.actions[action.deps[d].action].awaited);
        }
        for (const PreparedStep& step : action.steps) {
          // Earlier steps on the same stream are over by then, so no dependency names one of them.
          for (const int dep : step.deps) EXPECT_NE(action.steps[dep].stream, step.stream);
        }
        steps += static_cast<int64_t>(action.steps.size());
      }
      EXPECT_EQ(made.steps_of_list[0] + made.steps_of_list[1] + made.steps_of_list[2], steps);
    }
  }
}

// Each step is on one stream, and the steps of a stream are in the order of actions. On each stream, the first and the
// last step of an action are marked once.
TEST(PreparedProgram, StreamsHaveEveryStepOnceInOrder) {
  for (const Program& program : Programs()) {
    const Prepared prepared(program, 0);
    ASSERT_TRUE(prepared.made.ok()) << prepared.made.status();
    const PreparedProgram& made = **prepared.made;
    std::set<std::pair<int, int>> seen;
    for (const PreparedStream& stream : made.streams) {
      for (const auto& list : stream.steps) {
        std::pair<int, int> before(-1, -1);
        std::set<int> first, last;
        for (const StreamStep& step : list) {
          const std::pair<int, int> at(step.action, step.step);
          EXPECT_LT(before, at) << stream.name;
          EXPECT_TRUE(seen.insert(at).second) << stream.name;
          EXPECT_EQ(&made.streams[made.actions[step.action].steps[step.step].stream], &stream);
          EXPECT_EQ(step.first, first.insert(step.action).second);
          if (step.last) {
            EXPECT_TRUE(last.insert(step.action).second);
          }
          before = at;
        }
      }
    }
    size_t steps = 0;
    for (const PreparedAction& action : made.actions) steps += action.steps.size();
    EXPECT_EQ(seen.size(), steps);
  }
}

// A value lies at its offset in the buffer that the action binds to its operand. The buffer lies at its own offset in
// the arena.
TEST(PreparedProgram, ValuesLieWhereTheirBuffersDo) {
  for (const Program& program : Programs()) {
    const Prepared prepared(program, 0);
    ASSERT_TRUE(prepared.made.ok()) << prepared.made.status();
    const PreparedProgram& made = **prepared.made;
    int values = 0;
    for (const PreparedAction& action : made.actions) {
      if (action.steps.empty() || action.steps[0].step == nullptr) continue;
      const Segment& segment = prepared.program.segments(action.action->segment());
      ASSERT_EQ(action.steps.size(), segment.steps_size());
      for (int s = 0; s < segment.steps_size(); ++s) {
        const Step& step = segment.steps(s);
        const auto expect = [&](const TensorView& view, int index) {
          const Value& value = segment.values(index);
          const Buffer& buffer = made.rank_template->buffers(action.action->operands(value.operand()));
          EXPECT_EQ(view.data, prepared.arena->device_memory() + buffer.offset() + value.offset()) << value.name();
          EXPECT_EQ(view.dtype, value.dtype());
          EXPECT_TRUE(std::equal(view.shape.begin(), view.shape.end(), value.shape().begin(), value.shape().end()));
          ++values;
        };
        ASSERT_EQ(action.steps[s].inputs.size(), step.inputs_size());
        ASSERT_EQ(action.steps[s].outputs.size(), step.outputs_size());
        for (int i = 0; i < step.inputs_size(); ++i) expect(action.steps[s].inputs[i], step.inputs(i));
        for (int o = 0; o < step.outputs_size(); ++o) expect(action.steps[s].outputs[o], step.outputs(o));
      }
    }
    EXPECT_GT(values, 20);
  }
}

// Every send has a receive on the partner, with the same number of bytes on the same channel.
TEST(PreparedProgram, TransfersMeet) {
  const Program program = TinyProgram();
  const int ranks = static_cast<int>(MeshRanks(program.mesh()));
  std::multiset<std::vector<int64_t>> sent, received;
  for (int rank = 0; rank < ranks; ++rank) {
    const Prepared prepared(program, rank);
    ASSERT_TRUE(prepared.made.ok()) << prepared.made.status();
    for (const PreparedAction& action : (*prepared.made)->actions) {
      if (action.peer < 0) continue;
      const int64_t from = action.sends ? rank : action.peer, to = action.sends ? action.peer : rank;
      EXPECT_NE(from, to);
      (action.sends ? sent : received).insert({from, to, action.channel, action.bytes});
    }
  }
  EXPECT_FALSE(sent.empty());
  EXPECT_EQ(sent, received);
}

// Messages of collective actions are whole buffers, including the padding behind rounded-up parts. A buffer with one
// element less does not hold the parts of all members, so it is refused.
TEST(PreparedProgram, CollectiveActionsAreOfWholeBuffers) {
  Program program = SplitProgram(true, 3, 2, 0, 16, 3);
  ASSERT_TRUE(Prepared(program, 0).made.ok());
  Buffer& gathered = *MutableBuffer(&program, 0, "wte");
  gathered.set_bytes(gathered.bytes() - 4);
  const absl::Status status = Prepared(program, 0).made.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'gather weights': all-gather over 3 members from 4 to 11"));
}

TEST(PreparedProgram, ErrorsNameTheAction) {
  Program program = TinyProgram();
  FindAction(&program, 0, "F1")->add_deps()->set_action(12345);
  EXPECT_THAT(std::string(Prepared(program, 0).made.status().message()),
              HasSubstr("'F1' depends on action 12345, which does not exist"));
}

// The backends rely on this refusal: they check no counts, types, shapes or attributes.
TEST(PreparedProgram, AStepThatDoesNotFitItsRowIsRefused) {
  Program program = TinyProgram();
  const Action& action = *FindAction(&program, 0, "F1");
  Step& step = *program.mutable_segments(action.segment())->mutable_steps(0);
  step.clear_outputs();
  const absl::Status status = Prepared(program, 0).made.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("step '", step.name(), "', kernel ", Kernel_Name(step.kernel()),
                                     ": P2.kernel has ", step.inputs_size(), " inputs and 0 outputs")));
}

}  // namespace
}  // namespace weft::exec
