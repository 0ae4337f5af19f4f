#include "executor/backends/cuda/bandwidth_cases.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/sample.h"
#include "proto/util/units.h"

namespace weft::exec::cuda {
namespace {

using Operands = std::vector<BandwidthOperand>;

// Makes cases whose activations are rows x columns, and the operands that many cases share.
class Maker {
 public:
  Maker(int64_t of_rows, int64_t of_columns, int64_t of_vocabulary)
      : rows(of_rows), columns(of_columns), vocabulary(of_vocabulary) {}

  // `detail` is the type of the activations, plus anything else that distinguishes cases of one kernel.
  BandwidthCase& Add(Kernel kernel, const std::string& detail, Operands in, Operands out) {
    BandwidthCase c;
    c.name = absl::StrCat(Kernel_Name(kernel), " ", detail);
    c.step.set_name(c.name);
    c.step.set_kernel(kernel);
    c.in = std::move(in);
    c.out = std::move(out);
    c.in_place.assign(c.out.size(), -1);
    cases.push_back(std::move(c));
    return cases.back();
  }
  // Adds a case for the sample step that kernels::MakeSample makes for this kernel.
  BandwidthCase& AddSample(Kernel kernel, const std::string& detail, const kernels::SampleSizes& sizes) {
    kernels::Sample sample = kernels::MakeSample(kernels::RowOf(kernel), sizes);
    BandwidthCase& c = Add(kernel, detail, OperandsOf(sample.in), OperandsOf(sample.out));
    c.step = std::move(sample.step);
    c.step.set_name(c.name);
    c.other_bytes = static_cast<int64_t>(sample.bytes) - c.Bytes();
    return c;
  }
  BandwidthCase& AddSample(Kernel kernel, DType dtype = BF16) {
    return AddSample(kernel, dtype == BF16 ? "bf16" : dtype == FP32 ? "fp32" : "exact192", Sizes(dtype));
  }
  // Sequences have 256 rows: for images these are 16 x 16 positions.
  kernels::SampleSizes Sizes(DType dtype = BF16) const {
    return {.rows = rows,
            .d = columns,
            .vocabulary = vocabulary,
            .sequence = 256,
            .head_size = 128,
            .tensors = 1,
            .dtype = dtype};
  }
  // Makes the case accumulate into output 0, which is therefore read too.
  static void Accumulate(BandwidthCase& c) {
    c.step.set_accumulate(true);
    c.other_bytes += c.out[0].Bytes();
  }
  static StepAttributes& AttributesOf(BandwidthCase& c) { return *c.step.mutable_attributes(); }

  BandwidthOperand All(DType dtype) const { return {dtype, {rows, columns}}; }
  BandwidthOperand Row(DType dtype) const { return {dtype, {columns}}; }
  BandwidthOperand PerRow() const { return {FP32, {rows}}; }

  int64_t rows, columns, vocabulary;
  std::vector<BandwidthCase> cases;

 private:
  Operands OperandsOf(const std::vector<kernels::SampleTensor>& tensors) const {
    Operands operands;
    for (const kernels::SampleTensor& tensor : tensors) {
      operands.push_back({tensor.dtype, tensor.shape, tensor.dtype == INT32 ? vocabulary : 0});
    }
    return operands;
  }
};

void AddNorms(Maker& make, DType dtype, const std::string& detail) {
  make.AddSample(LAYER_NORM, detail, make.Sizes(dtype));
  make.AddSample(RMS_NORM, detail, make.Sizes(dtype));
  // In training, these gradients accumulate into the residual stream.
  make.Accumulate(make.AddSample(LAYER_NORM_BACKWARD, detail, make.Sizes(dtype)));
  make.Accumulate(make.AddSample(RMS_NORM_BACKWARD, detail, make.Sizes(dtype)));
  make.AddSample(LAYER_NORM_BACKWARD_WEIGHT, detail, make.Sizes(dtype));
  make.AddSample(RMS_NORM_BACKWARD_WEIGHT, detail, make.Sizes(dtype));
}

void AddElementwise(Maker& make) {
  const BandwidthOperand x = make.All(BF16), single = make.All(FP32);
  make.Accumulate(make.AddSample(NORM_BACKWARD_APPLY));
  for (const bool tanh : {true, false}) {
    for (const Kernel kernel : {GELU, GELU_BACKWARD}) {
      make.AttributesOf(make.AddSample(kernel, tanh ? "bf16 tanh" : "bf16", make.Sizes())).set_tanh_approximation(tanh);
    }
  }
  make.AddSample(ADD);
  make.AddSample(ADD, FP32);
  make.Add(CAST, "fp32 to bf16", {single}, {x});
  make.Add(CAST, "bf16 to fp32", {x}, {single});
  make.AddSample(FILL, FP32);
  make.AddSample(SCALE, FP32).in_place[0] = 1;
  // There is one head, whose sequences have `columns` positions.
  kernels::SampleSizes pairs = make.Sizes();
  pairs.sequence = make.columns;
  make.AddSample(ATTENTION_SOFTMAX, "bf16", pairs);
  make.AddSample(ATTENTION_SOFTMAX_BACKWARD, "bf16", pairs);
}

void AddTokens(Maker& make) {
  // The step reads and writes only those rows of the table's gradient that its tokens name. All tokens name different
  // rows.
  const int64_t unnamed = make.vocabulary - std::min(make.rows, make.vocabulary);
  make.AddSample(EMBEDDING_BACKWARD).other_bytes -= 2 * unnamed * make.columns * 4;
  BandwidthCase& first = make.AddSample(EMBEDDING_BACKWARD, "bf16, the first", make.Sizes());
  first.step.set_accumulate(false);
  first.other_bytes = 0;
  // The number of logits is about the number of activations.
  kernels::SampleSizes logits = make.Sizes();
  logits.rows = make.rows * make.columns / make.vocabulary + 1;
  for (const Kernel kernel : {CROSS_ENTROPY, CROSS_ENTROPY_PARTIAL, CROSS_ENTROPY_BACKWARD}) {
    make.AttributesOf(make.AddSample(kernel, "bf16", logits)).set_vocabulary(make.vocabulary);
  }
}

void AddImages(Maker& make) {
  const BandwidthOperand x = make.All(BF16);
  // The kernel reads only the scale, the first half of each sample's vector.
  make.AddSample(SCALE_SHIFT_BACKWARD).other_bytes = -make.rows / 256 * make.columns * 2;
  // These images have the same number of elements, in 128 channels.
  kernels::SampleSizes channels = make.Sizes();
  channels.d = 128;
  channels.rows = make.rows * make.columns / channels.d;
  for (const Kernel kernel : {GROUP_NORM, GROUP_NORM_BACKWARD, GROUP_NORM_BACKWARD_WEIGHT}) {
    make.AddSample(kernel, "bf16", channels);
  }
  const BandwidthOperand half = {BF16, {make.rows, make.columns / 2}}, small = {BF16, {make.rows / 4, make.columns}};
  make.Add(CONCAT_COLUMNS, "bf16", {half, half}, {x});
  make.Add(SLICE_COLUMNS, "bf16", {x}, {half}).other_bytes = -half.Bytes();
  for (const bool backward : {false, true}) {
    BandwidthCase& c =
        backward ? make.Add(UPSAMPLE_BACKWARD, "bf16", {x}, {small}) : make.Add(UPSAMPLE, "bf16", {small}, {x});
    make.AttributesOf(c).set_height(8);
    make.AttributesOf(c).set_width(8);
  }
}

// Adds launches that run several steps at once: an ADD of the residual stream followed by a norm, and a step that
// computes rows followed by steps that sum over these rows.
void AddLaunches(Maker& make, const std::string& detail) {
  const BandwidthOperand x = make.All(BF16), w = make.Row(BF16), s = make.PerRow(), gradient = make.Row(FP32);
  const auto launch = [&](Operands in, Operands out, std::vector<BandwidthStep> steps) {
    std::string all = detail;
    for (size_t i = 1; i < steps.size(); ++i) absl::StrAppend(&all, " + ", Kernel_Name(steps[i].step.kernel()));
    BandwidthCase& c = make.Add(steps[0].step.kernel(), all, std::move(in), std::move(out));
    steps[0].step.set_name(c.name);
    c.step = steps[0].step;
    c.launch = std::move(steps);
  };
  const auto step = [](Kernel kernel, std::vector<int> in, std::vector<int> out) {
    BandwidthStep made = {{}, std::move(in), std::move(out)};
    made.step.set_kernel(kernel);
    made.step.set_name(Kernel_Name(kernel));
    if (kernel == RMS_NORM) made.step.mutable_attributes()->set_epsilon(1e-5);
    if (kernel == GELU_BACKWARD) made.step.mutable_attributes()->set_tanh_approximation(true);
    return made;
  };
  launch({x, x, w}, {x, x, s}, {step(ADD, {0, 1}, {3}), step(RMS_NORM, {3, 2}, {4, 5})});
  launch({x, x}, {x, gradient}, {step(GELU_BACKWARD, {0, 1}, {2}), step(BIAS_GRADIENT, {2}, {3})});
  if (make.columns <= 1024 || make.columns > 8192) return;
  launch({x, x, w, s, x}, {x, gradient, x},
         {step(RMS_NORM_BACKWARD, {0, 1, 2, 3}, {5}), step(RMS_NORM_BACKWARD_WEIGHT, {0, 1, 3}, {6}),
          step(ADD, {4, 5}, {7})});
  launch({x, x, w, s, s, x}, {x, gradient, gradient, x, gradient},
         {step(LAYER_NORM_BACKWARD, {0, 1, 2, 3, 4}, {6}), step(LAYER_NORM_BACKWARD_WEIGHT, {0, 1, 3, 4}, {7, 8}),
          step(ADD, {5, 6}, {9}), step(BIAS_GRADIENT, {9}, {10})});
}

void AddOptimizer(Maker& make) {
  const BandwidthOperand x = make.All(BF16), single = make.All(FP32), exact = make.All(EXACT192);
  BandwidthCase& adamw = make.Add(ADAMW, "fp32", {x, single, single, single}, {single, single, single, x});
  make.AttributesOf(adamw).set_beta1(0.9);
  make.AttributesOf(adamw).set_beta2(0.95);
  make.AttributesOf(adamw).set_epsilon(1e-8);
  adamw.in_place = {1, 2, 3, -1};
  adamw.context.learning_rate = 1e-3;
  // Moments and parameters in bf16, rounded stochastically.
  BandwidthCase& halves = make.Add(ADAMW, "bf16 at random", {x, single, x, x}, {single, x, x, x});
  make.AttributesOf(halves).set_beta1(0.9);
  make.AttributesOf(halves).set_beta2(0.999);
  make.AttributesOf(halves).set_epsilon(1e-8);
  make.AttributesOf(halves).set_rounding_site(1);
  halves.in_place = {1, 2, 3, -1};
  halves.context.learning_rate = 1e-3;
  BandwidthCase& sgd = make.Add(SGD_STEP, "fp32", {x, single, single}, {single, single, x});
  make.AttributesOf(sgd).set_momentum(0.9);
  sgd.in_place = {1, 2, -1};
  sgd.context.learning_rate = 1e-3;
  make.AddSample(SQUARED_NORM, FP32);
  make.Add(EXACT_ROUND, "bf16", {exact}, {x});
  make.AddSample(ADD, EXACT192).in_place[0] = 0;
  make.AddSample(FILL, EXACT192);
}

// Adds a sample case for every kernel that is bound by memory and has no case yet.
void AddOthers(Maker& make) {
  // These kernels are not bound by memory: they handle at most one number per row, or compute functions of angles.
  std::set<Kernel> seen = {NORM_COMBINE, NORM_TOTAL, UPDATE_LOSS_SCALE, CROSS_ENTROPY_COMBINE, TIMESTEP_EMBEDDING};
  for (const BandwidthCase& c : make.cases) seen.insert(c.step.kernel());
  for (int k = KERNEL_UNSPECIFIED + 1; k < Kernel_ARRAYSIZE; ++k) {
    const kernels::KernelRow* row = kernels::FindRow(static_cast<Kernel>(k));
    if (row == nullptr || row->work != kernels::WorkKind::kMemory || seen.count(row->kernel) > 0) continue;
    // Loads have no case, because the host makes their tensors. Collectives have none, because no backend runs them.
    if (row->family != kernels::Family::kLoad && row->family != kernels::Family::kCollective) {
      make.AddSample(row->kernel);
    }
  }
}

}  // namespace

int64_t BandwidthOperand::Elements() const { return *ElementCount(shape); }

int64_t BandwidthOperand::Bytes() const { return Elements() * DTypeBytes(dtype); }

int64_t BandwidthCase::Bytes() const {
  int64_t bytes = other_bytes;
  for (const BandwidthOperand& operand : in) bytes += operand.Bytes();
  for (const BandwidthOperand& operand : out) bytes += operand.Bytes();
  return bytes;
}

std::vector<BandwidthCase> BandwidthCases(int64_t rows, int64_t columns, int64_t vocabulary) {
  Maker make(rows, columns, vocabulary);
  AddNorms(make, BF16, "bf16");
  AddNorms(make, FP32, "fp32");
  AddElementwise(make);
  AddTokens(make);
  AddImages(make);
  AddOptimizer(make);
  AddOthers(make);
  AddLaunches(make, "bf16");
  // If `columns` is the width of Llama 3 8B, `other` is the width of GPT-2 1.5B.
  if (const int64_t other = columns * 25 / 64; other % 8 == 0) {
    Maker more(rows * columns / other, other, vocabulary);
    AddLaunches(more, absl::StrCat("bf16 of ", other));
    for (BandwidthCase& c : more.cases) make.cases.push_back(std::move(c));
  }
  // Adds norms of shorter rows, which one warp handles, and of longer rows, which fill the registers of a block.
  for (const int64_t other : {columns / 4, 4 * columns}) {
    Maker more(rows * columns / other, other, vocabulary);
    AddNorms(more, BF16, absl::StrCat("bf16 of ", other));
    for (BandwidthCase& c : more.cases) make.cases.push_back(std::move(c));
  }
  return std::move(make.cases);
}

}  // namespace weft::exec::cuda
