#include "planner/compile.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile_testing.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"
#include "schedules/pipeline/schedule.h"
#include "tests/parse_text.h"
#include "verifier/verify.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

Recipe TinyRecipe(const std::string& fields = "") {
  return Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16 microbatch_sequences: 1 dropout: 0.1 " + fields);
}

struct Case {
  int pipe = 1;
  int data = 1;
  std::string schedule = "1f1b";
  std::string recompute = "NONE";
  std::string accumulation = "IN_ORDER";
  std::string clip = "1";

  std::string Name() const {
    return absl::StrJoin(std::make_tuple(pipe, data, schedule, recompute, accumulation, clip), " ");
  }
  Plan MakePlan(const std::string& fields = "") const {
    return Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", data, " } axes { name: 'pipe' size: ", pipe,
                                    " } } schedule { name: '", schedule, "' } recompute { mode: ", recompute,
                                    " } accumulation: ", accumulation, " ", fields));
  }
};

std::vector<Case> Cases(int pipe, int data) {
  std::vector<Case> cases;
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const char* recompute : {"NONE", "FULL"}) {
      for (const char* accumulation : {"IN_ORDER", "EXACT"}) {
        for (const char* clip : {"0", "1"}) cases.push_back({pipe, data, schedule, recompute, accumulation, clip});
      }
    }
  }
  return cases;
}

absl::StatusOr<Program> CompileCase(const Case& c, const ModelGraph& model, const std::string& plan_fields = "") {
  return CompilePlan(model, TinyRecipe("clip_norm: " + c.clip), c.MakePlan(plan_fields), TinyCluster(), {});
}

int64_t Round(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The arena height that a list needs if its actions run one after the other.
int64_t ListPeak(const Template& t) {
  int64_t live = 0;
  for (const Buffer& buffer : t.buffers()) live += buffer.persistent() ? Round(buffer.bytes()) : 0;
  int64_t most = live;
  std::set<int> begun;
  for (const Action& action : t.body()) {
    std::vector<int> used(action.operands().begin(), action.operands().end());
    used.insert(used.end(), action.destinations().begin(), action.destinations().end());
    for (int b : used) {
      if (!t.buffers(b).persistent() && begun.insert(b).second) live += Round(t.buffers(b).bytes());
    }
    most = std::max(most, live);
    for (int b : action.releases()) live -= Round(t.buffers(b).bytes());
  }
  return most;
}

// The parameters are (pipe, data). These are separate tests, so that they can be spread over shards.
class EveryPlanTest : public testing::TestWithParam<std::tuple<int, int>> {};
INSTANTIATE_TEST_SUITE_P(Meshes, EveryPlanTest, testing::Combine(testing::Values(1, 2, 4, 8), testing::Values(1, 2)));

TEST_P(EveryPlanTest, GivesAProvenAndTightProgram) {
  const ModelGraph model = TinyGpt2(8);
  for (const Case& c : Cases(std::get<0>(GetParam()), std::get<1>(GetParam()))) {
    SCOPED_TRACE(c.Name());
    auto program = CompileCase(c, model);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->stages(), c.pipe);
    EXPECT_EQ(program->microbatches(), 16 / c.data);
    EXPECT_EQ(program->templates_size(), c.pipe);
    EXPECT_TRUE(program->has_evaluation());
    for (const Template& t : program->templates()) {
      // Send and receive buffers may be live a little longer than the list says.
      EXPECT_LE(t.device_arena_bytes(), 1.1 * static_cast<double>(ListPeak(t))) << t.name();
      EXPECT_GE(t.device_arena_bytes(), ListPeak(t)) << t.name();
    }
    if (c.clip == "1" && c.pipe % 4 == 0) {
      // FindViolations agrees: it finds nothing.
      for (const Finding& finding : FindViolations(*program)) ADD_FAILURE() << finding.rule << ": " << finding.message;
    }
  }
}

TEST(CompileTest, UntiedHeadsAndOtherOptimizersAreProvenToo) {
  const ModelGraph untied = TinyGpt2(4, R"(, "tie_word_embeddings": false)");
  for (int pipe : {1, 2, 4}) {
    auto program = CompileCase({pipe, 2, "1f1b", "FULL", "EXACT", "1"}, untied);
    ASSERT_TRUE(program.ok()) << program.status();
    for (const Template& t : program->templates()) {
      for (const Action& action : t.body()) EXPECT_NE(action.purpose(), TIED_SYNC) << action.name();
    }
  }
  for (const char* optimizer : {"sgd {}", "sgd { momentum: 0.9 }", "adamw { weight_decay: 0 }"}) {
    auto program = CompilePlan(TinyGpt2(4), TinyRecipe(optimizer), Case{.pipe = 2}.MakePlan(), TinyCluster(), {});
    ASSERT_TRUE(program.ok()) << program.status();
  }
}

TEST(CompileTest, TiedTensorIsSummedOverItsTwoStagesInModelOrder) {
  auto program = CompileCase({4, 2}, TinyGpt2(8));
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<int> holders;
  for (int r = 0; r < program->templates_size(); ++r) {
    for (const Action& action : program->templates(r).body()) {
      if (action.purpose() != TIED_SYNC) continue;
      holders.push_back(r);
      EXPECT_EQ(action.algorithm(), "direct");
      ASSERT_EQ(action.group().axes_size(), 1);
      EXPECT_EQ(action.group().axes(0).axis(), "pipe");
      EXPECT_THAT(action.group().axes(0).indices(), testing::ElementsAre(0, 3));
    }
  }
  EXPECT_THAT(holders, testing::ElementsAre(0, 3));
}

// With one ring over the whole mesh, the number of rounds would grow with the number of ranks.
TEST(CompileTest, LossesAreSummedAxisByAxis) {
  for (int data : {1, 2}) {
    auto program = CompileCase({4, data}, TinyGpt2(8), "collective: 'ring'");
    ASSERT_TRUE(program.ok()) << program.status();
    for (const Program* p : std::initializer_list<const Program*>{&*program, &program->evaluation()}) {
      for (const Template& t : p->templates()) {
        std::vector<std::string> sums;
        for (const Action& action : t.body()) {
          if (action.purpose() != LOSS_SYNC) continue;
          ASSERT_EQ(action.group().axes_size(), 1);
          sums.push_back(absl::StrCat(action.group().axes(0).axis(), " ", action.algorithm()));
          EXPECT_EQ(t.buffers(action.destinations(0)).role(), LOSSES);
        }
        std::vector<std::string> expected = {"pipe direct", "data ring"};
        expected.resize(data);
        EXPECT_EQ(sums, expected) << t.name();
      }
    }
  }
}

TEST(CompileTest, GroupsTooLargeToRunAreMentioned) {
  Recipe recipe = Parse<Recipe>("sequence_length: 4 global_batch_sequences: 2048 dropout: 0");
  Cluster cluster = TinyCluster();
  cluster.set_nodes(256);
  for (int data : {1024, 2048}) {
    std::vector<std::string> notes;
    CompileOptions options;
    options.notes = &notes;
    auto program = CompilePlan(TinyGpt2(2), recipe, Case{1, data}.MakePlan(), cluster, options);
    ASSERT_TRUE(program.ok()) << program.status();
    if (data == 1024) {
      EXPECT_TRUE(notes.empty());
    } else {
      EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("axis 'data' has 2048 ranks; sums over more than 1024")));
    }
  }
}

TEST(CompileTest, SameInputsGiveSameBytes) {
  const Case c{4, 2, "1f1b", "FULL", "EXACT", "1"};
  auto a = CompileCase(c, TinyGpt2(8)), b = CompileCase(c, TinyGpt2(8));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(SerializeProgram(*a), SerializeProgram(*b));
}

// The largest number of forwards in flight, without their backward, at any point of a list.
int PeakInFlight(const Template& t) {
  int live = 0, most = 0;
  for (const Action& action : t.body()) {
    if (action.kind() == FORWARD) most = std::max(most, ++live);
    if (action.kind() == BACKWARD) --live;
  }
  return most;
}

TEST(CompileTest, ListsFollowTheSchedule) {
  const ModelGraph model = TinyGpt2(8);
  for (const char* name : {"gpipe", "1f1b"}) {
    for (int pipe : {1, 2, 4, 8}) {
      for (const char* batch : {"1", "3", "8"}) {
        SCOPED_TRACE(absl::StrCat(name, " ", pipe, " ", batch));
        Recipe recipe = TinyRecipe();
        ASSERT_TRUE(
            google::protobuf::TextFormat::MergeFromString(absl::StrCat("global_batch_sequences: ", batch), &recipe));
        auto program = CompilePlan(model, recipe, Case{pipe, 1, name}.MakePlan(), TinyCluster(), {});
        ASSERT_TRUE(program.ok()) << program.status();
        const int n = program->microbatches();
        auto schedule = (*FindSchedule(name))->build({.ranks = pipe, .microbatches = n});
        ASSERT_TRUE(schedule.ok());
        for (int r = 0; r < pipe; ++r) {
          std::vector<Slot> slots;
          for (const Action& action : program->templates(r).body()) {
            if (action.kind() == FORWARD) slots.push_back({SlotKind::kForward, 0, action.stage(), action.microbatch()});
            if (action.kind() == BACKWARD) {
              slots.push_back({SlotKind::kBackward, 0, action.stage(), action.microbatch()});
            }
          }
          EXPECT_TRUE(slots == schedule->order[r]) << "rank " << r;
          EXPECT_EQ(PeakInFlight(program->templates(r)), std::string(name) == "gpipe" ? n : std::min(pipe - r, n));
        }
      }
    }
  }
}

TEST(CompileTest, MemoryOfOneRankIsWhatTheSizesSay) {
  // One block, width 16, 100 tokens padded to 128, 16 positions; fp32, AdamW, tied head.
  auto program = CompilePlan(TinyGpt2(1), TinyRecipe("adamw {}"), Case{}.MakePlan("precision { compute: FP32 }"),
                             TinyCluster(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  const Template& t = program->templates(0);
  // Bytes of each tensor, rounded to 256: wte 128x16, wpe 16x16, c_attn 16x48, c_proj 16x16, c_fc 16x64, c_proj 64x16;
  // then vectors of 16 (ln_1, ln_2, ln_f: weight and bias; c_proj bias twice), 48 and 64.
  const int64_t matrices = 4 * (128 * 16 + 16 * 16 + 16 * 48 + 16 * 16 + 2 * 16 * 64);
  const int64_t vectors = (6 + 2 + 1 + 1) * 256;
  // Each tensor has a parameter, a gradient and two moments; the shared embedding has a second gradient.
  int64_t persistent = 4 * (matrices + vectors) + 4 * 128 * 16;
  // Two buffers hold 16 losses of 8 bytes, which is 128 bytes. Two more hold the norms of 16 tensors, also 128 bytes.
  // One holds the total norm. Each takes 256 bytes.
  persistent += (2 + 2 + 1) * 256;
  int64_t found = 0;
  for (const Buffer& buffer : t.buffers()) found += buffer.persistent() ? Round(buffer.bytes()) : 0;
  EXPECT_EQ(found, persistent);
  // A forward holds its saved activations and its workspace; a backward holds the same activations and its own
  // workspace.
  std::map<std::string, int64_t> bytes;
  for (const Segment& segment : program->segments()) {
    for (const Operand& operand : segment.operands()) bytes[segment.name() + " " + operand.name()] = operand.bytes();
  }
  const int64_t saved = Round(bytes["stage0.forward saved"]);
  ASSERT_GT(saved, 0);
  const int64_t workspace =
      std::max(Round(bytes["stage0.forward workspace"]), Round(bytes["stage0.backward workspace"]));
  EXPECT_EQ(t.device_arena_bytes(), persistent + saved + workspace);
}

TEST(CompileTest, MoreBuffersOnAnEdgeStayProven) {
  const ModelGraph model = TinyGpt2(8);
  for (int receive : {1, 2, 5, 100}) {
    for (int send : {1, 3, 100}) {
      for (const char* schedule : {"gpipe", "1f1b"}) {
        auto program =
            CompileCase({4, 1, schedule}, model, absl::StrCat("receive_buffers: ", receive, " send_buffers: ", send));
        ASSERT_TRUE(program.ok()) << receive << " " << send << " " << program.status();
      }
    }
  }
}

TEST(CompileTest, GradientBucketsHoldWholeTensors) {
  auto one = CompileCase({2, 2}, TinyGpt2(8)), many = CompileCase({2, 2}, TinyGpt2(8), "gradient_bucket_bytes: 4096");
  ASSERT_TRUE(one.ok() && many.ok());
  auto buckets = [](const Program& program) {
    std::vector<int> sizes;
    for (const Action& action : program.templates(0).body()) {
      if (action.purpose() == GRADIENT_SYNC) sizes.push_back(action.sources_size());
    }
    return sizes;
  };
  EXPECT_EQ(buckets(*one).size(), 1);
  EXPECT_GT(buckets(*many).size(), 3);
  int tensors = 0;
  for (int size : buckets(*many)) tensors += size;
  EXPECT_EQ(tensors, buckets(*one)[0]);
}

TEST(CompileTest, EvaluationIsForwardOnlyOnTheSameParameters) {
  auto program = CompileCase({4, 2}, TinyGpt2(8));
  ASSERT_TRUE(program.ok()) << program.status();
  const Program& evaluation = program->evaluation();
  for (const Finding& finding : FindViolations(evaluation)) ADD_FAILURE() << finding.rule << ": " << finding.message;
  ASSERT_EQ(evaluation.templates_size(), program->templates_size());
  for (int r = 0; r < evaluation.templates_size(); ++r) {
    std::map<std::string, int64_t> offsets;
    for (const Buffer& buffer : program->templates(r).buffers()) offsets[buffer.name()] = buffer.offset();
    for (const Buffer& buffer : evaluation.templates(r).buffers()) {
      if (!buffer.persistent()) continue;
      EXPECT_EQ(buffer.offset(), offsets.at(buffer.name())) << buffer.name();
    }
    for (const Action& action : evaluation.templates(r).body()) EXPECT_NE(action.kind(), BACKWARD);
    EXPECT_LE(evaluation.templates(r).device_arena_bytes(), program->templates(r).device_arena_bytes());
  }
  for (const Segment& segment : evaluation.segments()) {
    for (const Step& step : segment.steps()) EXPECT_EQ(step.attributes().dropout(), 0) << step.name();
  }
}

TEST(CompileTest, PrecisionFollowsTheDevice) {
  auto mixed = CompileCase({}, TinyGpt2(2));
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->precision().compute(), BF16);
  Cluster cluster = TinyCluster();
  cluster.mutable_device()->mutable_peaks()->RemoveLast();
  auto single = CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), cluster, {});
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(single->precision().compute(), FP32);
}

// Every matrix product uses TF32, in the forward, in the backward and cut over ranks. No other step does. All stored
// values are fp32.
TEST(CompileTest, ProductsInTf32) {
  Cluster cluster = TinyCluster();
  *cluster.mutable_device()->add_peaks() = Parse<Peak>("dtype: TF32 flops_per_second: 5e13");
  for (const char* mesh : {"axes { name: 'data' size: 2 } axes { name: 'pipe' size: 4 }",
                           "axes { name: 'x' size: 2 } axes { name: 'y' size: 2 }"}) {
    const Plan plan = Parse<Plan>(absl::StrCat("mesh { ", mesh, " } precision { compute: TF32 }"));
    auto program = CompilePlan(TinyGpt2(4), TinyRecipe(), plan, cluster, {});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->precision().compute(), TF32);
    EXPECT_EQ(program->precision().moments(), FP32);
    int products = 0;
    for (const Program* p : std::initializer_list<const Program*>{&*program, &program->evaluation()}) {
      for (const Finding& finding : FindViolations(*p)) ADD_FAILURE() << finding.rule << ": " << finding.message;
      for (const Segment& segment : p->segments()) {
        for (const Value& value : segment.values()) EXPECT_NE(value.dtype(), TF32) << value.name();
        for (const Step& step : segment.steps()) {
          EXPECT_EQ(step.attributes().tf32(), step.kernel() == MATMUL) << step.name();
          EXPECT_EQ(step.work().dtype() == TF32, step.kernel() == MATMUL) << step.name();
          products += step.kernel() == MATMUL;
        }
      }
    }
    EXPECT_GT(products, 0);
  }
}

TEST(CompileTest, DropoutOfTheConfigIsMentioned) {
  Recipe recipe = TinyRecipe();
  recipe.clear_dropout();
  std::vector<std::string> notes;
  CompileOptions options;
  options.notes = &notes;
  auto program = CompilePlan(TinyGpt2(2), recipe, Case{}.MakePlan(), TinyCluster(), options);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("recipe.dropout")));
  EXPECT_EQ(program->recipe().dropout(), 0);
  notes.clear();
  ASSERT_TRUE(CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), TinyCluster(), options).ok());
  EXPECT_TRUE(notes.empty());
}

TEST(CompileTest, SaysWhatItIsAt) {
  std::vector<std::string> phases;
  CompileOptions options;
  options.on_phase = [&](absl::string_view phase) { phases.emplace_back(phase); };
  ASSERT_TRUE(CompilePlan(TinyGpt2(2), TinyRecipe(), Case{.pipe = 2}.MakePlan(), TinyCluster(), options).ok());
  ASSERT_FALSE(phases.empty());
  EXPECT_EQ(phases.front(), "building stages");
  EXPECT_EQ(phases.back(), "proving");
  // The passes run in this order, once for training and once for evaluation.
  for (const char* pass : {"apply-schedule", "plan-memory"}) {
    EXPECT_EQ(std::count(phases.begin(), phases.end(), pass), 2) << absl::StrJoin(phases, ", ");
  }
  EXPECT_LT(std::find(phases.begin(), phases.end(), "apply-schedule"),
            std::find(phases.begin(), phases.end(), "plan-memory"));
}

TEST(CompileTest, EvaluationMayBeLeftOut) {
  CompileOptions options;
  options.evaluation = false;
  auto program = CompilePlan(TinyGpt2(2), TinyRecipe(), Case{.pipe = 2}.MakePlan(), TinyCluster(), options);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_FALSE(program->has_evaluation());
}

TEST(CompileTest, EmitsEveryLevel) {
  for (const auto& [level, text] : {std::pair("graph", "weft.graph"), std::pair("rank", "weft.template @pipe1"),
                                    std::pair("program", "templates {")}) {
    auto ir = EmitIr(TinyGpt2(2), TinyRecipe(), Case{.pipe = 2}.MakePlan(), TinyCluster(), level);
    ASSERT_TRUE(ir.ok()) << ir.status();
    EXPECT_THAT(*ir, HasSubstr(text));
  }
}

TEST(CompileTest, MeshesWithoutAxesAndOneMicrobatchWork) {
  Plan none = Parse<Plan>("schedule { name: 'gpipe' }");
  auto program = CompilePlan(TinyGpt2(2), TinyRecipe(), none, TinyCluster(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->templates_size(), 1);
  auto single = CompilePlan(TinyGpt2(2), Parse<Recipe>("sequence_length: 4 global_batch_sequences: 1"),
                            Case{.pipe = 2}.MakePlan(), TinyCluster(), {});
  ASSERT_TRUE(single.ok()) << single.status();
}

}  // namespace
}  // namespace weft::planner
