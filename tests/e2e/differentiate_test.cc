// Every differentiable op agrees with finite differences: a model around the op is differentiated by the compiler,
// exported, and run by the cpu backend in fp64.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/passes.h"
#include "compiler/segments.h"
#include "executor/backend.h"
#include "gtest/gtest.h"
#include "ir/graph_ops.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace weft {
namespace {

constexpr unsigned kSeed = 11;
constexpr int64_t kSequence = 3;
constexpr int64_t kSequences = 2;
constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-7;

// Tokens and targets of a sample are a function of its number; one target does not count.
class FixedData : public DataSource {
 public:
  int64_t windows() const override { return 16; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((sample * 5 + i * 3 + 1) % 7);
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>((sample * 2 + i * 4 + 3) % 7);
    if (sample == 1 && !targets.empty()) targets[0] = -1;
    return absl::OkStatus();
  }
};

// Bytes aligned as a backend expects.
struct Bytes {
  explicit Bytes(int64_t size) : storage(static_cast<size_t>(size + 64) / 8 + 1, 0.0) {}
  void* data() {
    auto address = reinterpret_cast<uintptr_t>(storage.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }
  std::vector<double> storage;
};

struct Case {
  std::string name;
  // Of its parameters %p1, %p2, ...: "4x4xf64".
  std::vector<std::string> parameters;
  // Makes %y: tensor<6x4xf64> of %x: tensor<6x4xf64>, in layer 1 ({L}) to `layers` ({L2}, {L3}). With several
  // layers it has the weft.parameter ops too.
  std::string body;
  int layers = 1;
};

std::vector<Case> Cases() {
  const std::string m = "tensor<6x4xf64>";
  const std::string mm = absl::StrCat("(", m, ", ", m, ") -> ", m);
  std::vector<Case> cases;
  cases.push_back(
      {"matmul",
       {"4x4xf64", "4xf64"},
       "%y = weft.matmul %x, %p1 bias %p2 {L} : (tensor<6x4xf64>, tensor<4x4xf64>, tensor<4xf64>) -> " + m});
  cases.push_back({"matmul_transpose_b",
                   {"4x4xf64"},
                   "%y = weft.matmul %x, %p1 {L, transpose_b} : (tensor<6x4xf64>, tensor<4x4xf64>) -> " + m});
  // Two of x's columns in the middle, and one at its end.
  cases.push_back({"slice_columns",
                   {"2x4xf64", "1x4xf64"},
                   "%s = weft.slice_columns %x {L, first_column = 1 : i64} : (" + m +
                       ") -> tensor<6x2xf64>\n%e = weft.slice_columns %x {L, first_column = 3 : i64} : (" + m +
                       ") -> tensor<6x1xf64>\n%a = weft.matmul %s, %p1 {L} : (tensor<6x2xf64>, tensor<2x4xf64>) -> " +
                       m + "\n%b = weft.matmul %e, %p2 {L} : (tensor<6x1xf64>, tensor<1x4xf64>) -> " + m +
                       "\n%y = weft.add %a, %b {L} : " + mm});
  // x^T x p1: both operands of the first product are activations, one transposed.
  cases.push_back({"matmul_transpose_a",
                   {"4x4xf64"},
                   "%s = weft.matmul %x, %x {L, transpose_a} : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<4x4xf64>\n"
                   "%t = weft.matmul %x, %s {L} : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.matmul %t, %p1 {L} : (tensor<6x4xf64>, tensor<4x4xf64>) -> " +
                       m});
  cases.push_back({"matmul_transpose_both",
                   {"6x4xf64"},
                   "%q = weft.matmul %x, %p1 {L, transpose_a} : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<4x4xf64>\n"
                   "%s = weft.matmul %q, %x {L, transpose_a, transpose_b} : (tensor<4x4xf64>, tensor<6x4xf64>) -> "
                   "tensor<4x6xf64>\n"
                   "%y = weft.matmul %s, %q {L, transpose_a} : (tensor<4x6xf64>, tensor<4x4xf64>) -> " +
                       m});
  cases.push_back({"matmul_init",
                   {"4x4xf64"},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.matmul %x, %p1 init %g {L} : (tensor<6x4xf64>, tensor<4x4xf64>, tensor<6x4xf64>) -> " +
                       m});
  cases.push_back({"add",
                   {},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.add %x, %g {L} : " +
                       mm});
  cases.push_back({"add_to_itself", {}, "%y = weft.add %x, %x {L} : " + mm});
  cases.push_back({"add_init",
                   {},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.add %x, %x init %g {L} : (tensor<6x4xf64>, tensor<6x4xf64>, "
                   "tensor<6x4xf64>) -> " +
                       m});
  cases.push_back({"layer_norm",
                   {"4xf64", "4xf64"},
                   "%y, %mean, %rstd = weft.layer_norm %x, %p1, %p2 {L, epsilon = 1.0e-5 : f64} : (tensor<6x4xf64>, "
                   "tensor<4xf64>, tensor<4xf64>) -> (tensor<6x4xf64>, tensor<6xf64>, tensor<6xf64>)"});
  cases.push_back({"gelu", {}, "%y = weft.gelu %x {L} : (tensor<6x4xf64>) -> " + m});
  cases.push_back({"gelu_tanh", {}, "%y = weft.gelu %x {L, tanh_approximation} : (tensor<6x4xf64>) -> " + m});
  for (const char* attributes : {"", ", causal", ", causal, dropout = 0.3 : f64, dropout_site = 5 : i32"}) {
    cases.push_back({absl::StrCat("attention", attributes),
                     {"4x12xf64"},
                     absl::StrCat("%qkv = weft.matmul %x, %p1 {L} : (tensor<6x4xf64>, tensor<4x12xf64>) -> "
                                  "tensor<6x12xf64>\n%y, %rows = weft.attention %qkv {L, heads = 2 : i64, scale = 0.7 "
                                  ": f64, sequence = 3 : i64",
                                  attributes, "} : (tensor<6x12xf64>) -> (tensor<6x4xf64>, tensor<6x2xf64>)")});
  }
  // Grouped heads of three inputs, turned and not, with and without a window.
  for (const char* attributes : {"", ", window = 2 : i64"}) {
    cases.push_back(
        {absl::StrCat("attention_grouped", attributes),
         {"8x4xf64", "4x4xf64", "4x4xf64", "4x8xf64"},
         absl::StrCat(
             "%q = weft.matmul %x, %p1 {L, transpose_b} : (tensor<6x4xf64>, tensor<8x4xf64>) -> tensor<6x8xf64>\n"
             "%k = weft.matmul %x, %p2 {L, transpose_b} : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>\n"
             "%v = weft.matmul %x, %p3 {L, transpose_b} : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>\n"
             "%r = weft.rope %q {L, sequence = 3 : i64, head_size = 4 : i64, base = 10.0 : f64, magnitude = 1.25 : "
             "f64} : (tensor<6x8xf64>) -> tensor<6x8xf64>\n"
             "%o, %rows = weft.attention %r, %k, %v {L, causal, heads = 2 : i64, kv_heads = 1 : i64, scale = 0.7 : "
             "f64, sequence = 3 : i64",
             attributes,
             "} : (tensor<6x8xf64>, tensor<6x4xf64>, tensor<6x4xf64>) -> (tensor<6x8xf64>, tensor<6x2xf64>)\n"
             "%y = weft.matmul %o, %p4 {L, transpose_b} : (tensor<6x8xf64>, tensor<4x8xf64>) -> " +
                 m)});
  }
  // The same in several ops: of one matrix, and of three with grouped heads.
  for (const char* dropout :
       {"",
        "%d = weft.dropout %p {L, dropout = 0.3 : f64, dropout_site = 5 : i32, heads = 2 : i64, sequence = 3 : i64} : "
        "(tensor<6x6xf64>) -> tensor<6x6xf64>\n",
        "%d, %mask = weft.dropout_mask %p {L, dropout = 0.3 : f64, dropout_site = 5 : i32, heads = 2 : i64, sequence = "
        "3 "
        ": i64} : (tensor<6x6xf64>) -> (tensor<6x6xf64>, tensor<6x6xui8>)\n"}) {
    const char* p = *dropout == 0 ? "%p" : "%d";
    cases.push_back(
        {absl::StrCat("attention_ops ", dropout),
         {"4x12xf64"},
         absl::StrCat(
             "%qkv = weft.matmul %x, %p1 {L} : (tensor<6x4xf64>, tensor<4x12xf64>) -> tensor<6x12xf64>\n"
             "%s = weft.attention_scores %qkv {L, heads = 2 : i64, scale = 0.7 : f64, sequence = 3 : i64} : "
             "(tensor<6x12xf64>) -> tensor<6x6xf64>\n"
             "%p = weft.attention_softmax %s {L, causal, heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xf64>) -> "
             "tensor<6x6xf64>\n",
             dropout, "%y = weft.attention_values ", p,
             ", %qkv {L, heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xf64>, tensor<6x12xf64>) -> ", m)});
    cases.push_back(
        {absl::StrCat("attention_ops_grouped ", dropout),
         {"2x4xf64", "2x4xf64"},
         absl::StrCat("%k = weft.matmul %x, %p1 {L, transpose_b} : (tensor<6x4xf64>, tensor<2x4xf64>) -> "
                      "tensor<6x2xf64>\n%v = weft.matmul %x, %p2 {L, transpose_b} : (tensor<6x4xf64>, "
                      "tensor<2x4xf64>) -> tensor<6x2xf64>\n%s = weft.attention_scores %x, %k {L, heads = 2 : i64, "
                      "kv_heads = 1 : i64, scale = 0.7 : f64, sequence = 3 : i64} : (tensor<6x4xf64>, tensor<6x2xf64>) "
                      "-> tensor<6x6xf64>\n%p = weft.attention_softmax %s {L, causal, heads = 2 : i64, sequence = 3 : "
                      "i64, window = 2 : i64} : (tensor<6x6xf64>) -> tensor<6x6xf64>\n",
                      dropout, "%y = weft.attention_values ", p,
                      ", %v {L, heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64} : (tensor<6x6xf64>, "
                      "tensor<6x2xf64>) -> ",
                      m)});
  }
  // One value as keys and as values.
  cases.push_back({"attention_shared",
                   {},
                   "%y, %rows = weft.attention %x, %x, %x {L, heads = 2 : i64, kv_heads = 2 : i64, scale = 0.7 : f64, "
                   "sequence = 3 : i64} : (tensor<6x4xf64>, tensor<6x4xf64>, tensor<6x4xf64>) -> (tensor<6x4xf64>, "
                   "tensor<6x2xf64>)"});
  cases.push_back(
      {"rms_norm",
       {"4xf64"},
       "%y, %rstd = weft.rms_norm %x, %p1 {L, epsilon = 1.0e-5 : f64} : (tensor<6x4xf64>, tensor<4xf64>) -> "
       "(tensor<6x4xf64>, tensor<6xf64>)"});
  cases.push_back(
      {"rope",
       {},
       "%y = weft.rope %x {L, sequence = 3 : i64, head_size = 2 : i64, base = 10.0 : f64, magnitude = 1.5 : "
       "f64, factor = 4.0 : f64, ramp_low = 0.0 : f64, ramp_high = 1.0 : f64} : (tensor<6x4xf64>) -> " +
           m});
  cases.push_back({"swiglu",
                   {"4x4xf64"},
                   "%g = weft.matmul %x, %p1 {L} : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.swiglu %g, %x {L} : " +
                       mm});
  cases.push_back(
      {"dropout",
       {},
       "%y = weft.dropout %x {L, dropout = 0.3 : f64, dropout_site = 2 : i32} : (tensor<6x4xf64>) -> " + m});
  cases.push_back({"position_embedding",
                   {"5x4xf64"},
                   "%e = weft.position_embedding %p1 {L, sequence = 3 : i64} : (tensor<5x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.add %x, %e {L} : " +
                       mm});
  cases.push_back({"cast",
                   {},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.cast %g {L} : (tensor<6x4xf64>) -> " +
                       m});
  return cases;
}

// Values that stages further on read, in one stage per layer.
std::vector<Case> SkipCases() {
  const std::string m = "tensor<6x4xf64>";
  const std::string mm = absl::StrCat("(", m, ", ", m, ") -> ", m);
  auto product = [&](const char* result, const char* of, int parameter, const char* layer) {
    return absl::StrCat("%p", parameter, " = weft.parameter ", parameter, " {", layer, "} : tensor<4x4xf64>\n%", result,
                        " = weft.matmul %", of, ", %p", parameter, " {", layer, "} : (", m, ", tensor<4x4xf64>) -> ", m,
                        "\n");
  };
  std::vector<Case> cases;
  // From one stage over the next.
  cases.push_back({"skip",
                   {"4x4xf64"},
                   absl::StrCat(product("a", "x", 1, "L"), "%b = weft.gelu %a {L2} : (", m, ") -> ", m,
                                "\n%y = weft.add %b, %a {L3} : ", mm),
                   3});
  // One value read by three stages, and one of them has another skip.
  cases.push_back({"skips",
                   {"4x4xf64", "4x4xf64"},
                   absl::StrCat("%a = weft.gelu %x {L} : (", m, ") -> ", m, "\n", product("c", "a", 1, "L2"),
                                "%d = weft.add %c, %x {L2} : ", mm, "\n", product("e", "d", 2, "L3"),
                                "%f = weft.add %e, %x {L3} : ", mm, "\n%y = weft.add %f, %a {L3} : ", mm),
                   3});
  // The gradient of both inputs is the gradient that comes in.
  cases.push_back({"skip_through",
                   {},
                   absl::StrCat("%a = weft.gelu %x {L} : (", m, ") -> ", m, "\n", "%y = weft.add %a, %x {L2} : ", mm),
                   2});
  return cases;
}

// The model around a case: embedding, the op in a layer of its own, head, loss. Replaces L by the layer.
std::string ModelText(const Case& c, const std::string& accumulation) {
  std::string text = absl::StrCat("module attributes {weft.training = {accumulation = \"", accumulation,
                                  "\", clip_norm = 0.0 : f64, grads = f64, master = f64, moments = f64, optimizer = "
                                  "\"sgd\", momentum = 0.0 : f64}} {\n");
  std::vector<std::string> types = {"8x4xf64"};
  types.insert(types.end(), c.parameters.begin(), c.parameters.end());
  types.push_back("4x8xf64");
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<std::string> extents = absl::StrSplit(types[i], 'x');
    extents.pop_back();  // The element type.
    absl::StrAppend(&text, "weft.tensor @t", i, " index ", i, " shape [", absl::StrJoin(extents, ", "), "] : tensor<",
                    types[i], ">\n");
  }
  absl::StrAppend(&text,
                  "weft.graph @g {\n^bb0(%losses: tensor<1xf64>):\n"
                  "%tokens = weft.load_tokens {layer = 0 : i32} : tensor<6xi32>\n"
                  "%p0 = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf64>\n"
                  "%x = weft.embedding %tokens, %p0 {layer = 0 : i32} : (tensor<6xi32>, tensor<8x4xf64>) -> "
                  "tensor<6x4xf64>\n");
  for (size_t i = 1; i <= c.parameters.size() && c.layers == 1; ++i) {
    absl::StrAppend(&text, "%p", i, " = weft.parameter ", i, " {layer = 1 : i32} : tensor<", types[i], ">\n");
  }
  std::string body = c.body;
  for (size_t at = 0; (at = body.find("{L", at)) != std::string::npos; ++at) {
    const bool numbered = body[at + 2] == '2' || body[at + 2] == '3';
    const std::string layer = numbered ? body.substr(at + 2, 1) : "1";
    body.replace(at, numbered ? 3 : 2, absl::StrCat("{layer = ", layer, " : i32"));
  }
  const std::string last = absl::StrCat("{layer = ", c.layers + 1, " : i32");
  absl::StrAppend(&text, body, "\n%head = weft.parameter ", types.size() - 1, " ", last,
                  "} : tensor<4x8xf64>\n"
                  "%logits = weft.matmul %y, %head ",
                  last,
                  "} : (tensor<6x4xf64>, tensor<4x8xf64>) -> "
                  "tensor<6x8xf64>\n"
                  "%targets = weft.load_targets ",
                  last,
                  "} : tensor<6xi32>\n"
                  "%lse, %new = weft.cross_entropy %logits, %targets, %losses ",
                  last,
                  ", loss_weight = 0.25 : "
                  "f64, vocabulary = 7 : i64} : (tensor<6x8xf64>, tensor<6xi32>, tensor<1xf64>) -> (tensor<6xf64>, "
                  "tensor<1xf64>)\nweft.yield %new : tensor<1xf64>\n}\n}\n");
  return text;
}

struct Variant {
  int stages = 1;
  std::string recompute = "none";
  std::string accumulation = "in_order";
  // One layer per stage, whatever it costs.
  bool by_layer = false;
  bool halves = false;
};

// A compiled model with its buffers, on one thread.
class Model {
 public:
  Model(const Case& c, const Variant& variant) : backend_(MakeCpuBackend(1)) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<ir::WeftDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(ModelText(c, variant.accumulation), &context);
    if (!module) return;
    mlir::PassManager passes(&context);
    PartitionStagesOptions partition;
    partition.stages = variant.stages;
    std::vector<int32_t> one_each(variant.stages, 1);
    if (variant.by_layer) partition.layersPerStage = one_each;
    passes.addPass(createPartitionStages(partition));
    BuildSegmentsOptions build;
    build.recompute = variant.recompute;
    build.wholeBackward = !variant.halves;
    build.splitBackward = variant.halves;
    passes.addPass(createBuildSegments(build));
    if (mlir::failed(passes.run(*module))) return;
    absl::StatusOr<SegmentSet> set = ExportSegments(*module);
    EXPECT_TRUE(set.ok()) << set.status();
    if (set.ok()) set_ = *std::move(set);
  }

  bool ok() const { return !set_.stages.empty(); }
  const SegmentSet& set() const { return set_; }

  // The tensor's storage; all stages share it.
  absl::Span<double> Tensor(ir::Role role, int32_t tensor) {
    for (const StageSegment& segment : set_.segments) {
      for (const SegmentOperand& operand : segment.operands) {
        if (operand.role != role || operand.tensor != tensor || operand.use != 0) continue;
        return {static_cast<double*>(Buffer(segment.stage, operand).data()), static_cast<size_t>(operand.bytes / 8)};
      }
    }
    return {};
  }

  double Loss() {
    for (const StageIndex& stage : set_.stages) Run(stage.forward);
    return Tensor(ir::Role::LocalLosses, -1)[0];
  }
  void Backward() {
    for (size_t i = set_.stages.size(); i-- > 0;) {
      const StageIndex& stage = set_.stages[i];
      if (stage.backward >= 0) Run(stage.backward);
      if (stage.backward_input >= 0) Run(stage.backward_input);
    }
    for (const StageIndex& stage : set_.stages) {
      if (stage.backward_weight >= 0) Run(stage.backward_weight);
    }
    for (const RankIndex& rank : set_.ranks) {
      if (rank.grad_norm >= 0) Run(rank.grad_norm);
    }
  }

 private:
  // What stage s puts out is what stage s + 1 takes in, and the other way round for gradients.
  Bytes& Buffer(int32_t stage, const SegmentOperand& operand) {
    std::string place = absl::StrCat(ir::stringifyRole(operand.role).str(), " ", stage);
    if (operand.role == ir::Role::Input) place = absl::StrCat("output ", stage - 1);
    if (operand.role == ir::Role::InputGrad) place = absl::StrCat("output_grad ", stage - 1);
    if (operand.use > 0 && operand.tensor < 0) {
      const bool forward = operand.role == ir::Role::Input || operand.role == ir::Role::Output;
      place = absl::StrCat(forward ? "skip " : "skip_grad ", operand.use);
    }
    if (operand.tensor >= 0) {
      place = absl::StrCat(ir::stringifyRole(operand.role).str(), " of ", operand.tensor, " use ", operand.use);
    }
    if (operand.role >= ir::Role::LocalLosses && operand.role <= ir::Role::Norm) {
      place = ir::stringifyRole(operand.role).str();
    }
    // Scratch is different in size from segment to segment.
    if (operand.role == ir::Role::Workspace) absl::StrAppend(&place, " ", operand.bytes);
    auto found = buffers_.find(place);
    if (found == buffers_.end()) found = buffers_.emplace(place, Bytes(operand.bytes)).first;
    return found->second;
  }

  void Run(int index) {
    const StageSegment& s = set_.segments[index];
    std::vector<TensorView> values;
    for (const Value& value : s.segment.values()) {
      char* base = static_cast<char*>(Buffer(s.stage, s.operands[value.operand()]).data());
      values.push_back({base + value.offset(), value.dtype(), absl::MakeConstSpan(value.shape())});
    }
    StepContext context;
    context.seed = 3;
    context.microbatch_sequences = kSequences;
    context.data = &data_;
    for (const Step& step : s.segment.steps()) {
      std::vector<TensorView> inputs, outputs;
      for (int input : step.inputs()) inputs.push_back(values[input]);
      for (int output : step.outputs()) outputs.push_back(values[output]);
      absl::Status status = backend_->Run(step, inputs, outputs, context);
      ASSERT_TRUE(status.ok()) << s.segment.name() << " " << step.name() << ": " << status;
    }
  }

  FixedData data_;
  std::unique_ptr<Backend> backend_;
  SegmentSet set_;
  std::map<std::string, Bytes> buffers_;
};

void CheckGradients(const Case& c, const Variant& variant) {
  SCOPED_TRACE(absl::StrCat(c.name, ", ", variant.stages, " stages, recompute ", variant.recompute, ", ",
                            variant.accumulation, ", seed ", kSeed));
  Model model(c, variant);
  ASSERT_TRUE(model.ok());
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const int32_t tensors = static_cast<int32_t>(c.parameters.size()) + 2;
  for (int32_t t = 0; t < tensors; ++t) {
    for (double& element : model.Tensor(ir::Role::Param, t)) element = uniform(random);
  }
  model.Loss();
  model.Backward();
  for (int32_t t = 0; t < tensors; ++t) {
    absl::Span<double> gradient = model.Tensor(ir::Role::Grad, t);
    absl::Span<double> parameter = model.Tensor(ir::Role::Param, t);
    ASSERT_EQ(gradient.size(), parameter.size()) << "tensor " << t;
    double difference = 0;
    double reference = 0;
    for (size_t i = 0; i < parameter.size(); ++i) {
      const double before = parameter[i];
      parameter[i] = before + kStep;
      const double up = model.Loss();
      parameter[i] = before - kStep;
      const double down = model.Loss();
      parameter[i] = before;
      const double numeric = (up - down) / (2 * kStep);
      difference += (gradient[i] - numeric) * (gradient[i] - numeric);
      reference += numeric * numeric;
    }
    EXPECT_GT(reference, 0) << "tensor " << t << " has no influence: the test would pass with any gradient of zero";
    EXPECT_LE(std::sqrt(difference), kTolerance * std::sqrt(reference)) << "tensor " << t;
  }
}

TEST(Differentiate, AgreesWithFiniteDifferences) {
  for (const Case& c : Cases()) CheckGradients(c, {});
}

TEST(Differentiate, AcrossStages) {
  for (const Case& c : Cases()) CheckGradients(c, {.stages = 3});
}

TEST(Differentiate, WithRecompute) {
  for (const Case& c : Cases()) CheckGradients(c, {.stages = 2, .recompute = "full"});
}

TEST(Differentiate, InTwoHalves) {
  for (const Case& c : Cases()) CheckGradients(c, {.stages = 3, .halves = true});
  for (const Case& c : Cases()) CheckGradients(c, {.stages = 2, .recompute = "full", .halves = true});
}

TEST(Differentiate, OverSkipConnections) {
  for (const Case& c : SkipCases()) {
    for (bool halves : {false, true}) {
      for (const char* recompute : {"none", "full"}) {
        Variant variant{.stages = c.layers + 2, .recompute = recompute, .by_layer = true, .halves = halves};
        CheckGradients(c, variant);
      }
    }
  }
}

// Gradients of a value that one op of each of several stages reads are added in the same order as within one stage.
TEST(Differentiate, SkipConnectionsChangeNoBit) {
  for (const Case& c : SkipCases()) {
    SCOPED_TRACE(c.name);
    Model one(c, {});
    Model many(c, {.stages = c.layers + 2, .by_layer = true});
    ASSERT_TRUE(one.ok() && many.ok());
    EXPECT_TRUE(one.set().skips.empty());
    EXPECT_FALSE(many.set().skips.empty());
    const int32_t tensors = static_cast<int32_t>(c.parameters.size()) + 2;
    for (Model* model : {&one, &many}) {
      std::mt19937 random(kSeed);
      std::uniform_real_distribution<double> uniform(-1, 1);
      for (int32_t t = 0; t < tensors; ++t) {
        for (double& element : model->Tensor(ir::Role::Param, t)) element = uniform(random);
      }
      model->Loss();
      model->Backward();
    }
    EXPECT_EQ(one.Loss(), many.Loss());
    for (int32_t t = 0; t < tensors; ++t) {
      absl::Span<double> a = one.Tensor(ir::Role::Grad, t), b = many.Tensor(ir::Role::Grad, t);
      EXPECT_EQ(std::vector<double>(a.begin(), a.end()), std::vector<double>(b.begin(), b.end())) << "tensor " << t;
    }
  }
}

TEST(Differentiate, SkipConnectionsAreListed) {
  const Case skips = SkipCases()[1];
  Model model(skips, {.stages = 5, .by_layer = true});
  ASSERT_EQ(model.set().skips.size(), 3);
  // x for stages 2 and 3, and the activation.
  const int edges[][2] = {{0, 2}, {0, 3}, {1, 3}};
  const char* names[] = {"weft.embedding", "weft.embedding", "weft.gelu"};
  for (int i = 0; i < 3; ++i) {
    const SkipTensor& skip = model.set().skips[i];
    EXPECT_EQ(skip.name, names[i]);
    EXPECT_EQ(skip.from_stage, edges[i][0]);
    EXPECT_EQ(skip.to_stage, edges[i][1]);
    EXPECT_EQ(skip.dtype, FP64);
    EXPECT_EQ(skip.shape, (std::vector<int64_t>{6, 4}));
  }
}

TEST(Differentiate, IntoExactAccumulators) {
  for (const Case& c : Cases()) CheckGradients(c, {.accumulation = "exact"});
}

// No differentiable op is without a case.
// Ops that other tests differentiate in whole models: those of split graphs against one rank (tensor_parallel_test),
// those of images against finite differences and PyTorch (unet_segments_test).
constexpr absl::string_view kElsewhere[] = {
    "weft.add_per_sample",
    "weft.bias_add",
    "weft.concat_columns",
    "weft.conv2d",
    "weft.cross_entropy_combine",
    "weft.cut_gradients",
    "weft.fan_out",
    "weft.group_all_gather",
    "weft.group_all_reduce",
    "weft.group_norm",
    "weft.group_reduce_scatter",
    "weft.norm_apply",
    "weft.scale_shift",
    "weft.silu",
    "weft.squared_error",
    "weft.upsample",
};

TEST(Differentiate, CoversEveryOp) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  std::string all;
  for (const Case& c : Cases()) absl::StrAppend(&all, ModelText(c, "in_order"));
  int differentiable = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    if (!name.hasInterface<ir::DifferentiableInterface>()) continue;
    ++differentiable;
    const std::string op = name.getStringRef().str();
    const bool here = all.find(absl::StrCat(" = ", op, " ")) != std::string::npos;
    const bool elsewhere = std::find(std::begin(kElsewhere), std::end(kElsewhere), op) != std::end(kElsewhere);
    EXPECT_NE(here, elsewhere) << op;
  }
  EXPECT_GE(differentiable, 9);
}

}  // namespace
}  // namespace weft
