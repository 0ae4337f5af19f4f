// Tests saved activations in host memory: which ones are offloaded, when they are fetched, and which plans are refused.
// tests/e2e/offload_test.cc checks that no bit changes.
#include "compiler/rewrite/offload_activations.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "compiler/rewrite/replan_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "simulator/simulate.h"
#include "tests/parse_text.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using testing::HasSubstr;

Cluster TestCluster(const std::string& host) {
  return Parse<Cluster>(absl::StrCat(R"(
    name: "test" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e11
             peaks { dtype: FP32 flops_per_second: 1e12 } }
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 } )",
                                     host));
}

absl::StatusOr<Program> CompileCase(const std::string& schedule, int pipe, const std::string& offload,
                                    const std::string& host = "host { bytes_per_second: 1e12 }",
                                    const std::string& fields = "", std::vector<std::string>* notes = nullptr,
                                    const std::string& axes = "", int microbatches = 8) {
  const auto model = ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 96, "n_positions": 16, "n_embd": 32, "n_head": 2, "n_layer": 6})",
      "tiny");
  if (!model.ok()) return model.status();
  planner::CompileOptions options;
  options.notes = notes;
  return planner::CompilePlan(
      *model,
      Parse<Recipe>(
          absl::StrCat("sequence_length: 16 steps: 4 microbatch_sequences: 1 global_batch_sequences: ", microbatches)),
      Parse<Plan>(absl::StrCat("mesh { ", axes, " axes { name: 'pipe' size: ", pipe, " } } schedule { name: '",
                               schedule, "' } offload { ", offload, " } ", fields)),
      TestCluster(host), options);
}

int64_t Copied(const Program& program, int t, ActionKind kind) {
  int64_t bytes = 0;
  for (const Action& action : program.templates(t).body()) {
    if (action.kind() != kind) continue;
    for (const Step& step : program.segments(action.segment()).steps()) bytes += step.work().bytes();
  }
  return bytes;
}

TEST(OffloadActivations, MoreLayersAreMoreBytes) {
  std::vector<int64_t> bytes;
  for (const int layers : {1, 2, 3, 100}) {
    const auto program = CompileCase("gpipe", 2, absl::StrCat("activation_layers: ", layers));
    ASSERT_TRUE(program.ok()) << program.status();
    bytes.push_back(Copied(*program, 1, OFFLOAD));
    EXPECT_EQ(bytes.back(), Copied(*program, 1, FETCH));
  }
  for (size_t i = 1; i < bytes.size(); ++i) EXPECT_GT(bytes[i], bytes[i - 1]) << i;
}

// GPipe: the backwards of the first microbatches come much later, so every copy except the last few is hidden.
TEST(OffloadActivations, CopiesRunBesideCompute) {
  const auto program = CompileCase("gpipe", 2, "activation_layers: 2");
  ASSERT_TRUE(program.ok()) << program.status();
  const auto plain = CompileCase("gpipe", 2, "");
  ASSERT_TRUE(plain.ok()) << plain.status();
  const Cluster cluster = TestCluster("host { bytes_per_second: 1e12 }");
  const auto with = sim::Simulate(*program, cluster, {}), without = sim::Simulate(*plain, cluster, {});
  ASSERT_TRUE(with.ok()) << with.status();
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(with->report.makespan_seconds(), without->report.makespan_seconds());
  EXPECT_LT(with->report.live_peak_bytes(), without->report.live_peak_bytes());
  EXPECT_GT(with->report.planned_host_bytes(), 0);
  // Over a slow link, compute waits for the copies, and the report shows this.
  const auto slow = sim::Simulate(*program, TestCluster("host { bytes_per_second: 1e8 }"), {});
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_GT(slow->report.makespan_seconds(), without->report.makespan_seconds());
  double waited = 0;
  for (const IdleCause& cause : slow->report.per_rank(0).idle_causes()) {
    if (cause.cause() == "waiting for a copy between host and device") waited += cause.seconds();
  }
  EXPECT_GT(waited, 0);
}

// GPipe: at most two microbatches' values are being offloaded at one time, and at most two microbatches have fetched
// copies on the device. So the second forward waits for the offload, and the fetch waits for the action before the
// previous backward.
TEST(OffloadActivations, TwoCopiesEachWay) {
  const auto program = CompileCase("gpipe", 2, "activation_layers: 2");
  ASSERT_TRUE(program.ok()) << program.status();
  for (const Template& t : program->templates()) {
    // `place`: position of each compute action, by id. `out`: for each microbatch, its forward and the first action
    // that waits for its offload. `in`: for each microbatch, the end of the last action before its fetch and the end of
    // its backward.
    std::map<int, int> place;
    std::map<int, std::pair<int, int>> out, in;
    std::map<int, int> offload, fetch;
    for (const Action& action : t.body()) {
      if (action.kind() == OFFLOAD) offload[action.id()] = action.microbatch();
      if (action.kind() == FETCH) fetch[action.id()] = action.microbatch();
      if (action.kind() != FORWARD && action.kind() != BACKWARD) continue;
      place[action.id()] = static_cast<int>(place.size());
    }
    for (const Action& action : t.body()) {
      const bool compute = place.contains(action.id());
      for (const Dependency& dep : action.deps()) {
        if (action.kind() == OFFLOAD && place.contains(dep.action())) {
          out[action.microbatch()] = {place.at(dep.action()), 1 << 30};
        }
        if (action.kind() == FETCH && place.contains(dep.action())) {
          in[action.microbatch()].first = std::max(in[action.microbatch()].first, place.at(dep.action()) + 1);
        }
      }
      if (!compute) continue;
      for (const Dependency& dep : action.deps()) {
        if (const auto it = offload.find(dep.action()); it != offload.end()) {
          out[it->second].second = std::min(out[it->second].second, place.at(action.id()));
        }
        // The action reads the fetched values until it ends.
        if (const auto it = fetch.find(dep.action()); it != fetch.end())
          in[it->second].second = place.at(action.id()) + 1;
      }
    }
    for (const auto& [name, lives] : {std::pair{"out", out}, std::pair{"in", in}}) {
      ASSERT_GT(lives.size(), 4u) << name;
      int most = 0;
      for (int p = 0; p < static_cast<int>(place.size()); ++p) {
        most = std::max(most, static_cast<int>(std::count_if(lives.begin(), lives.end(), [p](const auto& life) {
                          return life.second.first <= p && p < life.second.second;
                        })));
      }
      EXPECT_EQ(most, 2) << t.name() << " " << name;
    }
  }
}

// 1F1B: a copy may take as long as a forward and a backward together.
TEST(OffloadActivations, CopiesHaveAForwardAndABackwardOfTime) {
  const auto program = CompileCase("1f1b", 4, "activation_layers: 1");
  ASSERT_TRUE(program.ok()) << program.status();
  const Template& t = program->templates(0);
  int fetches = 0;
  for (const Action& action : t.body()) {
    if (action.kind() != FETCH) continue;
    ++fetches;
    // The fetch waits only for actions that stand before the previous microbatch's backward.
    for (const Dependency& dep : action.deps()) {
      for (const Action& on : t.body()) {
        if (on.id() != dep.action() || on.kind() != BACKWARD) continue;
        EXPECT_LE(on.microbatch(), action.microbatch() - 2) << action.name();
      }
    }
  }
  EXPECT_GT(fetches, 4);
}

// Forwards that run in pairs with backwards, and forwards of two microbatches: everything that is offloaded is fetched
// once.
TEST(OffloadActivations, PairsAndWideForwards) {
  struct Case {
    const char* schedule;
    int pipe;
    const char* fields;
    ActionKind kind;
    int width;
  };
  for (const Case& c : {Case{"dualpipev", 2, "", FORWARD_BACKWARD, 1}, Case{"dualpipe", 2, "", FORWARD_BACKWARD, 1},
                        Case{"chimera", 4, "scaling: FORWARD_DOUBLING", FORWARD, 2}}) {
    const auto program =
        CompileCase(absl::StrCat(c.schedule, "' ", c.fields, " definition: '"), c.pipe, "activation_layers: 2");
    ASSERT_TRUE(program.ok()) << c.schedule << ": " << program.status();
    int64_t gone = 0, as_asked = 0;
    for (int t = 0; t < program->templates_size(); ++t) {
      EXPECT_EQ(Copied(*program, t, OFFLOAD), Copied(*program, t, FETCH)) << c.schedule;
      gone += Copied(*program, t, OFFLOAD);
      for (const Action& action : program->templates(t).body()) {
        as_asked += action.kind() == c.kind && std::max(1, action.width()) == c.width;
      }
    }
    EXPECT_GT(gone, 0) << c.schedule;
    EXPECT_GT(as_asked, 0) << c.schedule;
    const Cluster cluster = TestCluster("host { bytes_per_second: 1e12 }");
    const auto simulation = sim::Simulate(*program, cluster, {});
    ASSERT_TRUE(simulation.ok()) << c.schedule << ": " << simulation.status();
    EXPECT_GT(simulation->report.planned_host_bytes(), 0) << c.schedule;
  }
}

// 1F1B: a stage offloads all of its values only if it always has four microbatches in flight. The next stage has four
// in flight only while its last forward runs. So it has time to offload only one microbatch, the last but one.
TEST(OffloadActivations, StagesOf1f1bThatHaveTheTime) {
  for (const int pipe : {4, 5}) {
    for (const int microbatches : {6, 8}) {
      const auto program = CompileCase("1f1b", pipe, "activation_layers: 3", "host { bytes_per_second: 1e12 }", "",
                                       nullptr, "", microbatches);
      ASSERT_TRUE(program.ok()) << program.status();
      std::vector<int> all;
      for (int m = 0; m < microbatches; ++m) all.push_back(m);
      for (int stage = 0; stage < pipe; ++stage) {
        std::vector<int> gone;
        for (const Action& action : program->templates(stage).body()) {
          if (action.kind() == OFFLOAD) gone.push_back(action.microbatch());
        }
        const std::vector<int> one = {microbatches - 2}, none;
        EXPECT_EQ(gone, stage <= pipe - 4   ? all
                        : stage == pipe - 3 ? one
                                            : none)
            << "stage " << stage << " of " << pipe << ", " << microbatches << " microbatches";
      }
    }
  }
}

// If nothing can leave the device, a note tells the user why.
TEST(OffloadActivations, SaysWhyNothingMoves) {
  const std::string host = "host { bytes_per_second: 1e12 }";
  struct Case {
    int pipe;
    const char* schedule;
    const char* fields;
    const char* note;
  };
  const char* const soon = "every backward so soon after its forward";
  for (const Case& c : {Case{1, "1f1b", "", soon}, Case{2, "1f1b", "", soon}, Case{4, "1f1b", "", nullptr},
                        Case{1, "gpipe", "", nullptr}}) {
    std::vector<std::string> notes;
    const auto program = CompileCase(c.schedule, c.pipe, "activation_layers: 3", host, c.fields, &notes);
    ASSERT_TRUE(program.ok()) << program.status();
    std::string about;
    for (const std::string& note : notes) {
      if (note.find("plan.offload.activation_layers = 3 moves nothing to host memory: ") != std::string::npos)
        about = note;
    }
    int64_t copied = 0;
    for (int t = 0; t < program->templates_size(); ++t) copied += Copied(*program, t, OFFLOAD);
    EXPECT_EQ(copied == 0, c.note != nullptr);
    if (c.note == nullptr) {
      EXPECT_EQ(about, "") << c.schedule;
    } else {
      EXPECT_THAT(about, HasSubstr(c.note)) << c.schedule;
    }
  }
}

constexpr char kTensor[] = "axes { name: 'x' size: 2 }", kData[] = "axes { name: 'data' size: 2 }";

// Offloaded values occupy the device for no longer than values that stay. So no rank's arena is larger, with
// collectives in segments or without. Only packing may lose a little.
TEST(OffloadActivations, NoArenaIsLarger) {
  struct Case {
    const char* schedule;
    int pipe;
    const char* axes = "";
    const char* fields = "";
    bool moves = true;
  };
  for (const Case& c : {Case{"1f1b", 2, "", "", false}, Case{"1f1b", 4}, Case{"1f1b", 2, kTensor, "", false},
                        Case{"gpipe", 4, kTensor, "sequence_parallel: true"}, Case{"gpipe", 2, kTensor},
                        Case{"gpipe", 2, kData, "zero { stage: 3 }"}, Case{"interleaved", 2, kTensor},
                        Case{"zb-v", 2, kTensor}, Case{"chimera", 2, kTensor, "", false}, Case{"dualpipev", 2, kTensor},
                        Case{"gpipe", 2, kTensor, "overlap { all_reduce: false }"}}) {
    const std::string what = absl::StrCat(c.schedule, " ", c.pipe, " ", c.axes, " ", c.fields);
    const std::string host = "host { bytes_per_second: 1e12 }";
    const auto plain = CompileCase(c.schedule, c.pipe, "", host, c.fields, nullptr, c.axes);
    const auto program = CompileCase(c.schedule, c.pipe, "activation_layers: 2", host, c.fields, nullptr, c.axes);
    ASSERT_TRUE(plain.ok()) << what << ": " << plain.status();
    ASSERT_TRUE(program.ok()) << what << ": " << program.status();
    int64_t moved = 0;
    for (int t = 0; t < program->templates_size(); ++t) {
      moved += Copied(*program, t, OFFLOAD);
      const int64_t before = plain->templates(t).device_arena_bytes();
      EXPECT_LE(program->templates(t).device_arena_bytes(), before + before / 50) << what << " template " << t;
    }
    EXPECT_EQ(moved > 0, c.moves) << what;
  }
}

TEST(OffloadActivations, Refusals) {
  const auto error = [](const auto&... arguments) { return std::string(CompileCase(arguments...).status().message()); };
  EXPECT_THAT(error("1f1b", 2, "activation_layers: 1", ""),
              HasSubstr("plan.offload.activation_layers = 1 needs cluster.host.bytes_per_second"));
  EXPECT_THAT(error("axonn", 2, "activation_layers: 1"),
              HasSubstr("plan.offload.activation_layers: schedule 'axonn' has no fixed order"));
  EXPECT_THAT(error("pipedream-2bw", 2, "activation_layers: 1"), HasSubstr("updates the weights without a flush"));
  EXPECT_THAT(error("zb-h2", 2, "activation_layers: 1", "host { bytes_per_second: 1e12 }", "post_validation: true"),
              HasSubstr("does not go with plan.post_validation"));
  EXPECT_EQ(error("1f1b", 2, "activation_layers: 1"), "");
}

// Replanning the memory of an unchanged program gives offsets that are about as good as the old ones and pass the
// verifier.
TEST(ReplanMemory, PlansAsThePassDoes) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-v", "chimera", "dualpipev"}) {
    auto program = CompileCase(schedule, 2, "");
    ASSERT_TRUE(program.ok()) << schedule << ": " << program.status();
    program->clear_evaluation();
    for (Template& t : *program->mutable_templates()) {
      const int64_t before = t.device_arena_bytes();
      ASSERT_TRUE(ReplanTransients(*program, &t).ok());
      EXPECT_LE(t.device_arena_bytes(), before + before / 50) << schedule << " " << t.name();
      EXPECT_EQ(t.host_arena_bytes(), 0);
    }
    EXPECT_TRUE(VerifyProgram(*program).ok()) << schedule << ": " << VerifyProgram(*program);
  }
}

// Replanning also gives about as good offsets for programs with collectives in segments, which the compute stream does
// not order.
TEST(ReplanMemory, PlansAsThePassDoesBesideCollectives) {
  struct Case {
    const char* schedule;
    const char* axes;
    const char* fields;
  };
  for (const Case& c :
       {Case{"1f1b", kTensor, ""}, Case{"zb-v", kTensor, ""}, Case{"interleaved", kTensor, ""},
        Case{"gpipe", kTensor, "sequence_parallel: true"}, Case{"1f1b", kTensor, "overlap { all_reduce: false }"},
        Case{"1f1b", kData, "zero { stage: 3 }"}, Case{"interleaved", kData, "zero { stage: 3 }"}}) {
    const std::string what = absl::StrCat(c.schedule, " ", c.axes, " ", c.fields);
    auto program = CompileCase(c.schedule, 2, "", "host { bytes_per_second: 1e12 }", c.fields, nullptr, c.axes);
    ASSERT_TRUE(program.ok()) << what << ": " << program.status();
    program->clear_evaluation();
    for (Template& t : *program->mutable_templates()) {
      const int64_t before = t.device_arena_bytes();
      ASSERT_TRUE(ReplanTransients(*program, &t).ok());
      EXPECT_LE(t.device_arena_bytes(), before + before / 50) << what << " " << t.name();
    }
    EXPECT_TRUE(VerifyProgram(*program).ok()) << what << ": " << VerifyProgram(*program);
  }
}

}  // namespace
}  // namespace weft
