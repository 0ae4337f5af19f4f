// Compares what ZeRO's stages send and keep with the ZeRO paper (Rajbhandari et al. 2020, arXiv:1910.02054): section 7
// for volumes, section 3.1 and Figure 1 for memory. Ψ is the number of elements of all parameters, D the number of
// ranks of `data`.
#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

// Compiles an untied model, so that each tensor has one use. A tensor with several uses would send a gradient for each.
Program Compiled(const std::string& mesh, const std::string& fields, int batch, const std::string& precision = "") {
  TinyPlan plan{.layers = 2, .batch = batch, .mesh = mesh, .tied = false, .plan_fields = fields};
  plan.precision = precision;
  const absl::StatusOr<Program> program = CompileTiny(plan);
  EXPECT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
  return program.ok() ? *program : Program();
}

int64_t Elements(const LogicalTensor& tensor) { return *ElementCount(tensor.padded_shape()); }

int64_t Psi(const Program& program) {
  int64_t elements = 0;
  for (const LogicalTensor& tensor : program.tensors()) elements += Elements(tensor);
  return elements;
}

// Elements of weights and gradients that a rank sends in rings in one iteration, by "gather", "scatter" and "reduce".
class Sent {
 public:
  Sent(const Program& program, const Template& t) : program_(program) {
    for (const Action& action : t.body()) {
      const bool weights = action.purpose() == GRADIENT_SYNC || action.purpose() == GATHER_WEIGHTS;
      if (action.kind() == ALL_REDUCE && weights) Add("reduce", 2, action.group(), Sum(t, action.sources()));
      if (action.kind() == REDUCE_SCATTER) Add("scatter", 1, action.group(), Sum(t, action.sources()));
      if (action.kind() == ALL_GATHER) Add("gather", 1, action.group(), Sum(t, action.destinations()));
      if (action.operands_size() > 0) AddSteps(program.segments(action.segment()));
    }
  }
  int64_t operator[](const std::string& what) const {
    const auto found = sent_.find(what);
    return found == sent_.end() ? 0 : found->second;
  }

 private:
  void AddSteps(const Segment& segment) {
    for (const Step& step : segment.steps()) {
      if (step.stream() != COLLECTIVE) continue;
      const bool gather = step.kernel() == GROUP_ALL_GATHER;
      EXPECT_TRUE(gather || step.kernel() == GROUP_REDUCE_SCATTER) << step.name();
      int64_t whole = 0;
      for (int i = 0; i < step.outputs_size(); ++i) {
        const Value& value = segment.values(gather ? step.outputs(i) : step.inputs(i));
        whole += *ElementCount(value.shape());
      }
      Add(gather ? "gather" : "scatter", 1, step.collective().group(), whole);
    }
  }
  static int64_t Sum(const Template& t, const google::protobuf::RepeatedField<int32_t>& buffers) {
    int64_t elements = 0;
    for (const int b : buffers) elements += *ElementCount(t.buffers(b).shape());
    return elements;
  }
  void Add(const char* what, int rounds, const Group& group, int64_t whole) {
    const int64_t ranks = GroupSize(program_.mesh(), group);
    EXPECT_EQ(whole % ranks, 0);
    sent_[what] += rounds * (ranks - 1) * (whole / ranks);
  }

  const Program& program_;
  std::map<std::string, int64_t> sent_;
};

TEST(ZeroVolumeTest, OneMicrobatchSendsWhatThePaperSays) {
  for (const int64_t d : {2, 4}) {
    for (const int stage : {0, 1, 2, 3}) {
      const Program program =
          Compiled(absl::StrCat("data", d), absl::StrCat("zero { stage: ", stage, " }"), static_cast<int>(d));
      ASSERT_EQ(program.templates_size(), 1);
      const Sent sent(program, program.templates(0));
      const int64_t part = Psi(program) / d * (d - 1);
      if (stage == 3) {
        // Weights are gathered for the forward and again for the backward, which does not read the embedding tables.
        const int64_t tables = Elements(program.tensors(0)) + Elements(program.tensors(1));
        EXPECT_EQ(sent["gather"], 2 * part - tables / d * (d - 1));
        EXPECT_EQ(sent["scatter"], part);
        EXPECT_EQ(sent["reduce"], 0);
      } else {
        EXPECT_EQ(sent["reduce"] + sent["scatter"] + sent["gather"], 2 * part) << "stage " << stage;
        EXPECT_EQ(sent["gather"], stage == 0 ? 0 : part);
        EXPECT_EQ(sent["scatter"], stage == 0 ? 0 : part);
      }
    }
  }
}

// Stage 1 scatters the sum of the gradients over microbatches. Stages 2 and 3 keep no whole gradients, so they scatter
// the gradients of each microbatch.
TEST(ZeroVolumeTest, EveryMicrobatchSendsWhatItsStageDemands) {
  const int64_t d = 2;
  for (const int microbatches : {2, 4}) {
    const int batch = static_cast<int>(d) * microbatches;
    const Program whole = Compiled("data2", "", batch);
    const int64_t part = Psi(whole) / d * (d - 1);
    EXPECT_EQ(Sent(whole, whole.templates(0))["reduce"], 2 * part);
    const Program one = Compiled("data2", "zero { stage: 1 }", batch);
    EXPECT_EQ(Sent(one, one.templates(0))["scatter"], part);
    EXPECT_EQ(Sent(one, one.templates(0))["gather"], part);
    const Program two = Compiled("data2", "zero { stage: 2 }", batch);
    EXPECT_EQ(Sent(two, two.templates(0))["scatter"], microbatches * part);
    EXPECT_EQ(Sent(two, two.templates(0))["gather"], part);
    const Program three = Compiled("data2", "zero { stage: 3 }", batch);
    const int64_t tables = (Elements(three.tensors(0)) + Elements(three.tensors(1))) / d * (d - 1);
    EXPECT_EQ(Sent(three, three.templates(0))["scatter"], microbatches * part);
    EXPECT_EQ(Sent(three, three.templates(0))["gather"], microbatches * (2 * part - tables));
  }
}

// How often parameters are gathered is a separate choice: twice for every microbatch, once for every microbatch (like
// FullyShardedDataParallel without reshard_after_forward), or once per iteration, as with stage 2.
TEST(ZeroVolumeTest, ParametersAreGatheredAsOftenAsTheyAreGivenUp) {
  for (const int64_t d : {2, 4}) {
    for (const int m : {1, 3}) {
      const int batch = static_cast<int>(d) * m;
      const auto three = [&](const std::string& fields) {
        return Compiled(absl::StrCat("data", d), "zero { stage: 3 " + fields + " }", batch);
      };
      const Program forward = three("");
      const int64_t part = Psi(forward) / d * (d - 1);
      const int64_t tables = (Elements(forward.tensors(0)) + Elements(forward.tensors(1))) / d * (d - 1);
      for (const char* prefetch : {"", "prefetch: 0", "prefetch: 1", "prefetch: 2", "prefetch: 100"}) {
        const Program program = three(prefetch);
        EXPECT_EQ(Sent(program, program.templates(0))["gather"], m * (2 * part - tables)) << prefetch;
        EXPECT_EQ(Sent(program, program.templates(0))["scatter"], m * part) << prefetch;
      }
      const Program backward = three("reshard: AFTER_BACKWARD");
      EXPECT_EQ(Sent(backward, backward.templates(0))["gather"], m * part);
      EXPECT_EQ(Sent(backward, backward.templates(0))["scatter"], m * part);
      const Program never = three("reshard: NEVER");
      EXPECT_EQ(Sent(never, never.templates(0))["gather"], part);
      EXPECT_EQ(Sent(never, never.templates(0))["scatter"], m * part);
      const Program layers = three("reshard: LAYERS kept_layers: [0, 2]");
      int64_t kept = 0, kept_tables = 0;
      for (const Buffer& buffer : layers.templates(0).buffers()) {
        if (buffer.role() != PARAM) continue;
        const int64_t elements = Elements(layers.tensors(buffer.tensor()));
        if (*ElementCount(buffer.shape()) != elements) continue;
        kept += elements;
        if (buffer.tensor() < 2) kept_tables += elements;
      }
      EXPECT_GT(kept, kept_tables);
      EXPECT_LT(kept, Psi(layers));
      EXPECT_EQ(kept_tables / d * (d - 1), tables);
      const int64_t kept_part = kept / d * (d - 1);
      EXPECT_EQ(Sent(layers, layers.templates(0))["gather"], kept_part + m * 2 * (part - kept_part));
      EXPECT_EQ(Sent(layers, layers.templates(0))["scatter"], m * part);
    }
  }
}

// Within groups of G ranks, volumes are those of G replicas. Then the D / G ranks that hold the same part sum it.
TEST(ZeroVolumeTest, GroupsSumTheirPartsOverTheOtherGroups) {
  const int64_t d = 4, g = 2;
  for (const int stage : {1, 2, 3}) {
    const Program program = Compiled("data4", absl::StrCat("zero { stage: ", stage, " group: 2 }"), 4);
    const Sent sent(program, program.templates(0));
    const int64_t psi = Psi(program);
    EXPECT_EQ(sent["scatter"], psi / g * (g - 1)) << stage;
    EXPECT_EQ(sent["reduce"], 2 * (psi / g) / (d / g) * (d / g - 1)) << stage;
  }
}

int64_t Bytes(const Template& t, BufferClass what) {
  int64_t bytes = 0;
  for (const Buffer& buffer : t.buffers()) {
    // The state of loss scaling is not part of the model's states.
    if (buffer.persistent() && buffer.class_() == what && buffer.role() != LOSS_SCALE) bytes += buffer.bytes();
  }
  return bytes;
}

struct Widths {
  const char* precision;
  // Bytes per element: parameter, gradient, and K, the sum of all optimizer states.
  int64_t param, grad, k;
  // Bytes per element that need no separate master: without ZeRO, or if everything is sharded alike, a parameter of the
  // master's type is its own master.
  int64_t master_saved = 0;
};

TEST(ZeroVolumeTest, ModelStatesTakeWhatThePaperSays) {
  for (const Widths& w :
       {Widths{"compute: FP16 params: FP16 grads: FP16 reduce: FP16 master: FP32 moments: FP32", 2, 2, 12},
        {"compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32", 2, 4, 12},
        {"compute: FP32 params: FP32 grads: FP32 reduce: FP32 master: FP32 moments: FP32", 4, 4, 12, 4}}) {
    for (const int64_t shared : {2, 4}) {
      for (const int stage : {0, 1, 2, 3}) {
        const std::string group = stage > 0 ? absl::StrCat("zero { stage: ", stage, " group: ", shared, " }") : "";
        const Program program = Compiled("data4", group, 8, w.precision);
        const Template& t = program.templates(0);
        const int64_t psi = Psi(program);
        const auto cut = [&](int from, int64_t bytes) { return stage >= from ? bytes / shared : bytes; };
        const int64_t k = stage == 0 || stage == 3 ? w.k - w.master_saved : w.k;
        EXPECT_EQ(Bytes(t, PARAMETER), cut(3, w.param * psi)) << stage;
        EXPECT_EQ(Bytes(t, GRADIENT), cut(2, w.grad * psi)) << stage;
        EXPECT_EQ(Bytes(t, OPTIMIZER), cut(1, k * psi)) << stage;
        // Buffers start at multiples of 256. Besides the model's states, there are losses, norms, the loss scale, and
        // the buffers of deferred reduce-scatters.
        const int64_t states = cut(3, w.param * psi) + cut(2, w.grad * psi) + cut(1, k * psi);
        int64_t end = 0, others = 0;
        int persistent = 0;
        for (const Buffer& buffer : t.buffers()) {
          if (!buffer.persistent()) continue;
          ++persistent;
          end = std::max(end, buffer.offset() + buffer.bytes());
          const bool other = buffer.class_() == COMMUNICATION || buffer.role() == LOSS_SCALE ||
                             (buffer.class_() == WORKSPACE && stage >= 2);
          if (other) others += buffer.bytes();
        }
        EXPECT_GE(end, states + others);
        EXPECT_LE(end, states + others + 255 * persistent);
      }
    }
  }
}

}  // namespace
}  // namespace weft
