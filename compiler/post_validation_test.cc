// Programs that take optimizer steps back (rule P15): the norm is no barrier any more, what is guessed, and that the
// verifier refuses them when they are broken.
#include "compiler/post_validation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/import_hf.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/verify/verify.h"
#include "simulator/naive_simulator.h"
#include "simulator/simulate.h"

namespace weft {
namespace {

using testing::HasSubstr;

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct Case {
  std::string schedule = "zb-h2";
  int pipe = 4;
  int microbatches = 16;
  double clip = 1;
  bool post_validation = true;
  std::string schedule_fields = "";
  int layers = 8;
  bool evaluation = false;
  int data = 1;
  std::string plan_fields = "";

  std::string Name() const { return absl::StrCat(schedule, " pipe ", pipe, " clip ", clip, " ", schedule_fields); }
};

Cluster TestCluster() {
  return Parse<Cluster>(R"(
    name: "test" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e12 reserved_bytes: 1000
             peaks { dtype: FP32 flops_per_second: 1e13 } peaks { dtype: BF16 flops_per_second: 1e13 } }
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 } )");
}

// The head is no copy of the embedding: a sum of their gradients would be a barrier of its own.
absl::StatusOr<Program> CompileCase(const Case& c) {
  const auto model = ImportHuggingFaceConfig(
      absl::StrCat(R"({"model_type": "gpt2", "vocab_size": 100, "n_positions": 16, "n_embd": 16, "n_head": 2,
                       "tie_word_embeddings": false, "n_layer": )",
                   c.layers, "}"),
      "tiny");
  if (!model.ok()) return model.status();
  CompileOptions options;
  options.evaluation = c.evaluation;
  return Compile(
      *model,
      Parse<Recipe>(absl::StrCat("sequence_length: 16 steps: 4 microbatch_sequences: 1 clip_norm: ", c.clip,
                                 " global_batch_sequences: ", c.microbatches)),
      Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", c.data, " } axes { name: 'pipe' size: ", c.pipe,
                               " } } ", c.plan_fields, " schedule { name: '", c.schedule, "' ", c.schedule_fields,
                               " } post_validation: ", c.post_validation ? "true" : "false")),
      TestCluster(), options);
}

Program CompileOrDie(const Case& c) {
  const absl::StatusOr<Program> program = CompileCase(c);
  EXPECT_TRUE(program.ok()) << c.Name() << ": " << program.status();
  return program.ok() ? *program : Program();
}

SimulationReport UnitReport(const Program& program, bool exceeded) {
  SimulateOptions options;
  options.cost = "unit";
  options.network = "none";
  options.cost_options.unit_forward = {1000};
  options.cost_options.unit_backward = {2000};
  options.cost_options.unit_weight = {1000};
  options.exceeded = exceeded;
  const absl::StatusOr<Simulation> simulation = Simulate(program, TestCluster(), options);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation->report;
}

int64_t Period(const Program& program, bool exceeded = false) {
  return std::llround(UnitReport(program, exceeded).iteration_seconds() * 1e12);
}

// Equal stages, free transfers, F = I = W = 1 and 16 microbatches: a step takes 48, the work of a rank, once ranks may
// begin the next one at different times; waiting for the norm adds what the makespan is longer.
TEST(PostValidation, NormIsNoBarrier) {
  for (const auto& [schedule, waits] : {std::pair("zb-h2", 51000), {"zb-v", 49500}}) {
    EXPECT_EQ(Period(CompileOrDie({.schedule = schedule, .post_validation = false})), waits) << schedule;
    EXPECT_EQ(Period(CompileOrDie({.schedule = schedule})), 48000) << schedule;
    EXPECT_EQ(Period(CompileOrDie({.schedule = schedule, .clip = 0})), 48000) << schedule;
  }
  // Where every rank ends at the same time there is nothing to gain, and nothing lost.
  EXPECT_EQ(Period(CompileOrDie({.schedule = "1f1b"})),
            Period(CompileOrDie({.schedule = "1f1b", .post_validation = false})));
}

// Taking every step back costs the guess once more, and the wait.
TEST(PostValidation, ExceededNormsCost) {
  const Program program = CompileOrDie({});
  const int64_t wrong = Period(program, true);
  EXPECT_GT(wrong, Period(program));
  EXPECT_LE(wrong, 51000 + 4000);
}

TEST(PostValidation, EachRankGuessesOneForwardLessThanTheRankBefore) {
  const Program program = CompileOrDie({});
  ASSERT_EQ(program.templates_size(), 4);
  for (const Template& t : program.templates()) {
    int guessed = 0;
    for (const Action& action : t.body()) guessed += action.kind() == FORWARD && action.if_exceeded();
    EXPECT_EQ(guessed, 4 - t.pins(0).index()) << t.name();
  }
}

TEST(PostValidation, MemoryGrowsByWhatIsKept) {
  const Program plain = CompileOrDie({.post_validation = false, .evaluation = true}),
                program = CompileOrDie({.evaluation = true});
  for (int i = 0; i < program.templates_size(); ++i) {
    int64_t kept = 0, optimizer = 0;
    for (const Buffer& buffer : program.templates(i).buffers()) {
      const bool copy = buffer.role() == KEPT_WEIGHT || buffer.role() == KEPT_MOMENT1 || buffer.role() == KEPT_MOMENT2;
      const bool state = buffer.role() == PARAM || buffer.role() == MOMENT1 || buffer.role() == MOMENT2;
      if (copy) kept += buffer.bytes();
      if (state) optimizer += buffer.bytes();
    }
    EXPECT_EQ(kept, optimizer);
    EXPECT_GE(program.templates(i).device_arena_bytes(), plain.templates(i).device_arena_bytes() + kept);
  }
}

// The oracle, where verdicts are all right and where all are wrong, with costs at random.
TEST(PostValidation, EngineIsTheNaiveSimulator) {
  for (const char* schedule : {"zb-h2", "zb-v"}) {
    for (int seed = 1; seed <= 2; ++seed) {
      const Program program = CompileOrDie({.schedule = schedule, .pipe = 2, .microbatches = 3, .layers = 4});
      for (const bool exceeded : {false, true}) {
        SimulateOptions options;
        options.cost = "unit";
        options.network = "none";
        options.exceeded = exceeded;
        options.cost_options.unit_forward = {1000 + 137 * seed};
        options.cost_options.unit_backward = {2000 + 311 * seed % 700};
        options.cost_options.unit_weight = {700 + 50 * seed};
        const absl::StatusOr<Simulation> simulation = Simulate(program, TestCluster(), options);
        ASSERT_TRUE(simulation.ok()) << simulation.status();
        // A unit cost is that of a whole rank.
        const int64_t stages = program.stages(), ranks = 2;
        const auto of_stage = [&](int64_t cost) { return (cost * ranks + stages - 1) / stages; };
        NaiveDurations durations;
        durations.step = [&](int, int step, ActionKind kind) -> int64_t {
          const int64_t f = of_stage(options.cost_options.unit_forward.ps);
          const int64_t b = of_stage(options.cost_options.unit_backward.ps);
          const int64_t w = of_stage(options.cost_options.unit_weight.ps);
          if (step > 0) return 0;
          return kind == FORWARD           ? f
                 : kind == BACKWARD        ? b
                 : kind == BACKWARD_INPUT  ? b - w
                 : kind == BACKWARD_WEIGHT ? w
                                           : 0;
        };
        durations.transfer = [](int64_t, int64_t, int64_t) { return std::pair<int64_t, int64_t>(0, 0); };
        durations.collective = [](const NaiveCollective&) { return std::pair<int64_t, int64_t>(0, 0); };
        const NaiveResult one = SimulateNaively(program, durations, 1, 8, 0, 0, exceeded);
        ASSERT_TRUE(one.complete);
        EXPECT_EQ(one.makespan, std::llround(simulation->report.makespan_seconds() * 1e12))
            << schedule << " seed " << seed << " exceeded " << exceeded;
        const int64_t live = *std::max_element(one.live_peak.begin(), one.live_peak.end());
        EXPECT_EQ(live, simulation->report.live_peak_bytes()) << schedule << " exceeded " << exceeded;
      }
    }
  }
}

TEST(PostValidation, Refusals) {
  const auto error = [](const Case& c) { return std::string(CompileCase(c).status().message()); };
  EXPECT_THAT(error({.schedule = "axonn"}),
              HasSubstr("plan.post_validation = true: schedule 'axonn' is message-driven"));
  EXPECT_THAT(error({.schedule = "pipedream-2bw", .clip = 0}), HasSubstr("plan.post_validation = true: schedule"));
  EXPECT_EQ(error({.schedule = "axonn", .schedule_fields = "freeze: true"}), "");
}

// Programs that are broken on purpose, and the rule that says so.
TEST(PostValidation, BrokenProgramsAreRefused) {
  const Program good = CompileOrDie({.pipe = 3, .microbatches = 6, .evaluation = true});
  const auto find = [](Program* p, int t, ActionKind kind, bool if_exceeded, int nth = 0) -> Action* {
    for (Action& action : *p->mutable_templates(t)->mutable_body()) {
      if (action.kind() == kind && action.if_exceeded() == if_exceeded && nth-- == 0) return &action;
    }
    ADD_FAILURE() << ActionKind_Name(kind);
    return p->mutable_templates(t)->mutable_body(0);
  };
  const auto drop_dep = [](Action* action, int on) {
    auto* deps = action->mutable_deps();
    for (int i = 0; i < deps->size(); ++i) {
      if (deps->Get(i).action() == on) deps->DeleteSubrange(i--, 1);
    }
  };
  struct Broken {
    const char* what;
    const char* rule;
    std::function<void(Program*)> change;
  };
  const std::vector<Broken> cases = {
      {"a plain program with a verdict", "P15.program", [](Program* p) { p->set_post_validation(false); }},
      {"a message-driven one", "P15.program", [](Program* p) { p->set_compute_order(ARRIVAL); }},
      {"no VALIDATE", "P15.lists", [&](Program* p) { find(p, 1, VALIDATE, false)->set_kind(CLEAR_GRADIENTS); }},
      {"an unconditional way back", "P15.lists",
       [&](Program* p) { find(p, 1, RESTORE_STATE, true)->set_if_exceeded(false); }},
      {"a conditional backward", "P15.lists",
       [&](Program* p) { find(p, 1, BACKWARD_INPUT, false)->set_if_exceeded(true); }},
      {"no KEEP_STATE", "P15.lists",
       [&](Program* p) {
         auto* body = p->mutable_templates(0)->mutable_body();
         for (int i = 0; i < body->size(); ++i) {
           if (body->Get(i).kind() == KEEP_STATE) body->DeleteSubrange(i--, 1);
         }
       }},
      {"no epilogue", "P15.lists", [](Program* p) { p->mutable_templates(2)->clear_epilogue(); }},
      {"one forward is not done again", "P15",
       [&](Program* p) {
         auto* body = p->mutable_templates(0)->mutable_body();
         for (int i = body->size() - 1; i >= 0; --i) {
           if (body->Get(i).kind() != FORWARD || !body->Get(i).if_exceeded()) continue;
           const int id = body->Get(i).id();
           body->DeleteSubrange(i, 1);
           for (Action& action : *body) drop_dep(&action, id);
           return;
         }
       }},
      {"another microbatch is done again", "P15.again",
       [&](Program* p) { find(p, 0, FORWARD, true)->set_microbatch(5); }},
      {"what is done again does not wait for the verdict", "P15.again",
       [&](Program* p) { drop_dep(find(p, 1, RECV, true), find(p, 1, VALIDATE, false)->id()); }},
      {"what is done again does not wait for the way back", "P15.again",
       [&](Program* p) { drop_dep(find(p, 0, FORWARD, true), find(p, 0, OPTIMIZER_STEP, true)->id()); }},
      {"a backward waits for the guess only", "P15.again",
       [&](Program* p) {
         Action* send = find(p, 0, SEND, false);
         for (Action& action : *p->mutable_templates(0)->mutable_body()) {
           if (action.if_exceeded() || action.kind() != BACKWARD_INPUT) continue;
           Dependency* dep = action.add_deps();
           dep->set_action(send->id());
           return;
         }
       }},
      {"the verdict does not wait for the norm", "P15.verdict",
       [&](Program* p) {
         Action* validate = find(p, 1, VALIDATE, false);
         for (const Action& action : p->templates(1).body()) {
           if (action.purpose() == NORM_SYNC) drop_dep(validate, action.id());
         }
       }},
      {"the verdict does not wait for the guess", "P15.verdict",
       [&](Program* p) { drop_dep(find(p, 0, VALIDATE, false), find(p, 0, FORWARD, false)->id()); }},
      {"the verdict is with another clip_norm", "P11.clip",
       [&](Program* p) {
         const int segment = find(p, 0, VALIDATE, false)->segment();
         p->mutable_segments(segment)->mutable_steps(0)->mutable_attributes()->set_clip_norm(7);
       }},
      {"a copy is missing", "P15.kept",
       [&](Program* p) {
         const int segment = find(p, 0, KEEP_STATE, false)->segment();
         Segment& keep = *p->mutable_segments(segment);
         // The first buffer is copied to where it is; its copy keeps nothing.
         Action* action = find(p, 0, KEEP_STATE, false);
         keep.mutable_operands()->DeleteSubrange(0, 2);
         keep.mutable_values()->DeleteSubrange(0, 2);
         keep.mutable_steps()->DeleteSubrange(0, 1);
         for (Value& value : *keep.mutable_values()) value.set_operand(value.operand() - 2);
         for (Step& step : *keep.mutable_steps()) {
           step.set_inputs(0, step.inputs(0) - 2);
           step.set_outputs(0, step.outputs(0) - 2);
         }
         action->mutable_operands()->erase(action->operands().begin(), action->operands().begin() + 2);
       }},
      {"a copy comes back to another place", "P15.kept",
       [&](Program* p) {
         // Moments of the same tensor are equally large.
         Action* restore = find(p, 0, RESTORE_STATE, true);
         std::vector<int> moments;
         for (int o = 0; o < restore->operands_size(); ++o) {
           const Buffer& buffer = p->templates(0).buffers(restore->operands(o));
           if (buffer.tensor() == 0 && (buffer.role() == MOMENT1 || buffer.role() == MOMENT2)) moments.push_back(o);
         }
         ASSERT_EQ(moments.size(), 2u);
         const int first = restore->operands(moments[0]);
         restore->set_operands(moments[0], restore->operands(moments[1]));
         restore->set_operands(moments[1], first);
       }},
      {"the step is taken again on a copy", "P15.kept",
       [&](Program* p) {
         Action* again = find(p, 0, OPTIMIZER_STEP, true);
         for (int& b : *again->mutable_operands()) {
           if (p->templates(0).buffers(b).role() != MOMENT1) continue;
           for (int k = 0; k < p->templates(0).buffers_size(); ++k) {
             const Buffer& buffer = p->templates(0).buffers(k);
             if (buffer.role() == KEPT_MOMENT1 && buffer.tensor() == p->templates(0).buffers(b).tensor()) {
               b = k;
               return;
             }
           }
         }
       }},
      {"a copy lies on other bytes that live", "P7",
       [&](Program* p) {
         Template& t = *p->mutable_templates(0);
         for (Buffer& buffer : *t.mutable_buffers()) {
           if (buffer.role() == KEPT_WEIGHT) {
             buffer.set_offset(t.buffers(0).offset());
             return;
           }
         }
       }},
      {"gradients are not cleared", "P9.zero",
       [&](Program* p) {
         const int segment = find(p, 0, CLEAR_GRADIENTS, false)->segment();
         const Value fill = p->segments(segment).values(0);
         Action* clear = find(p, 0, CLEAR_GRADIENTS, false);
         // Both lists leave the first gradient out.
         for (int i = 0; i < p->segments_size(); ++i) {
           Segment& s = *p->mutable_segments(i);
           const Action& last = *p->templates(0).epilogue().rbegin();
           if (i != segment && i != last.segment()) continue;
           s.mutable_operands()->DeleteSubrange(0, 1);
           s.mutable_values()->DeleteSubrange(0, 1);
           s.mutable_steps()->DeleteSubrange(0, 1);
           for (Value& value : *s.mutable_values()) value.set_operand(value.operand() - 1);
           for (Step& step : *s.mutable_steps()) step.set_outputs(0, step.outputs(0) - 1);
         }
         clear->mutable_operands()->erase(clear->operands().begin());
         Action& last = *p->mutable_templates(0)->mutable_epilogue()->rbegin();
         last.mutable_operands()->erase(last.operands().begin());
       }},
      {"a message of the guess is received in the rest", "P15",
       [&](Program* p) {
         // The last RECV of the guess of rank 1 moves behind VALIDATE, as do what waits for it.
         Action* recv = find(p, 1, RECV, false);
         recv->set_if_exceeded(true);
       }},
  };
  ASSERT_TRUE(VerifyProgram(good, {}).ok());
  for (const Broken& broken : cases) {
    Program program = good;
    broken.change(&program);
    const absl::Status status = VerifyProgram(program, {});
    EXPECT_FALSE(status.ok()) << broken.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("[", broken.rule))) << broken.what;
  }
}

// Weights in pieces are gathered by collectives that do not wait for their turn on the compute stream.
TEST(PostValidation, GathersOfWeightsWaitForTheWayBack) {
  const Program good =
      CompileOrDie({.schedule = "1f1b", .pipe = 2, .microbatches = 8, .data = 2, .plan_fields = "zero { stage: 3 }"});
  ASSERT_TRUE(VerifyProgram(good, {}).ok());
  for (int t = 0; t < good.templates_size(); ++t) {
    Program program = good;
    auto& body = *program.mutable_templates(t)->mutable_body();
    const auto clear =
        std::find_if(body.begin(), body.end(), [](const Action& action) { return action.kind() == CLEAR_GRADIENTS; });
    ASSERT_NE(clear, body.end());
    int dropped = 0;
    for (Action& action : body) {
      auto* deps = action.mutable_deps();
      for (int i = 0; i < deps->size(); ++i) {
        if (deps->Get(i).action() != clear->id() || deps->Get(i).distance() != 0) continue;
        deps->DeleteSubrange(i--, 1);
        ++dropped;
      }
    }
    EXPECT_GT(dropped, 0);
    EXPECT_THAT(std::string(VerifyProgram(program, {}).message()), HasSubstr("[P15.clear]")) << t;
  }
}

}  // namespace
}  // namespace weft
