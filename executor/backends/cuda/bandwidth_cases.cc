#include "executor/backends/cuda/bandwidth_cases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft::exec::cuda {
namespace {

using Operands = std::vector<BandwidthOperand>;

int64_t BytesOfType(DType dtype) {
  return dtype == FP64 ? 8 : dtype == EXACT192 ? 24 : dtype == UINT8 ? 1 : dtype == BF16 || dtype == FP16 ? 2 : 4;
}

// Makes cases whose activations are rows x columns, and the operands that many cases share.
class Maker {
 public:
  Maker(int64_t of_rows, int64_t of_columns) : rows(of_rows), columns(of_columns) {}

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
  BandwidthCase& Add(Kernel kernel, Operands in, Operands out) {
    return Add(kernel, "bf16", std::move(in), std::move(out));
  }
  // Adds a case that accumulates into output 0, which is therefore read too.
  BandwidthCase& Accumulate(Kernel kernel, const std::string& detail, Operands in, Operands out) {
    BandwidthCase& c = Add(kernel, detail, std::move(in), std::move(out));
    c.step.set_accumulate(true);
    c.other_bytes = c.out[0].Bytes();
    return c;
  }
  static StepAttributes& Of(BandwidthCase& c) { return *c.step.mutable_attributes(); }

  BandwidthOperand All(DType dtype) const { return {dtype, {rows, columns}}; }
  BandwidthOperand Row(DType dtype) const { return {dtype, {columns}}; }
  BandwidthOperand PerRow(int64_t numbers = 1) const {
    return numbers == 1 ? BandwidthOperand{FP32, {rows}} : BandwidthOperand{FP32, {rows, numbers}};
  }

  int64_t rows, columns;
  std::vector<BandwidthCase> cases;
};

void AddNorms(Maker& make, DType dtype, const std::string& detail) {
  const BandwidthOperand x = make.All(dtype), w = make.Row(dtype), s = make.PerRow(), gradient = make.Row(FP32);
  make.Of(make.Add(LAYER_NORM, detail, {x, w, w}, {x, s, s})).set_epsilon(1e-5);
  make.Of(make.Add(RMS_NORM, detail, {x, w}, {x, s})).set_epsilon(1e-5);
  // In training, these gradients accumulate into the residual stream.
  make.Accumulate(LAYER_NORM_BACKWARD, detail, {x, x, w, s, s}, {x});
  make.Accumulate(RMS_NORM_BACKWARD, detail, {x, x, w, s}, {x});
  make.Add(LAYER_NORM_BACKWARD_WEIGHT, detail, {x, x, s, s}, {gradient, gradient});
  make.Add(RMS_NORM_BACKWARD_WEIGHT, detail, {x, x, s}, {gradient});
}

// Norms of rows whose columns are split over two ranks; each case is one of the two parts.
void AddSplitNorms(Maker& make) {
  const BandwidthOperand x = make.All(BF16), w = make.Row(BF16), s = make.PerRow(), pairs = make.PerRow(2);
  make.Add(NORM_PARTIAL, {x}, {pairs});
  make.Add(NORM_APPLY, {x, w, w, s, s}, {x});
  make.Add(NORM_BACKWARD_PARTIAL, {x, x, w, s, s}, {pairs});
  make.Of(make.Accumulate(NORM_BACKWARD_APPLY, "bf16", {x, x, w, s, s, pairs}, {x}))
      .set_whole_columns(2 * make.columns);
}

void AddElementwise(Maker& make) {
  const BandwidthOperand x = make.All(BF16), single = make.All(FP32), w = make.Row(BF16);
  make.Add(SWIGLU, {x, x}, {x});
  make.Add(SWIGLU_BACKWARD, {x, x, x}, {x, x});
  for (const bool tanh : {true, false}) {
    const std::string detail = tanh ? "bf16 tanh" : "bf16";
    make.Of(make.Add(GELU, detail, {x}, {x})).set_tanh_approximation(tanh);
    make.Of(make.Add(GELU_BACKWARD, detail, {x, x}, {x})).set_tanh_approximation(tanh);
  }
  make.Add(SILU, {x}, {x});
  make.Add(SILU_BACKWARD, {x, x}, {x});
  make.Add(ADD, {x, x}, {x});
  make.Add(ADD, "fp32", {single, single}, {single});
  make.Add(BIAS_ADD, {x, w}, {x});
  make.Accumulate(BIAS_GRADIENT, "bf16", {x}, {make.Row(FP32)});
  make.Add(CAST, "fp32 to bf16", {single}, {x});
  make.Add(CAST, "bf16 to fp32", {x}, {single});
  make.Add(FILL, "fp32", {}, {single});
  make.Add(SCALE, "fp32", {{FP64, {2}}, single}, {single}).in_place[0] = 1;
  // The dropout mask, one byte per element.
  const BandwidthOperand mask = make.All(UINT8);
  make.Add(DROPOUT, {x}, {x});
  make.Add(DROPOUT_MASK, {x}, {x, mask});
  make.Add(DROPOUT_BY_MASK, {x, mask}, {x});
  for (size_t i = make.cases.size() - 3; i < make.cases.size(); ++i) {
    make.Of(make.cases[i]).set_dropout(0.1);
    make.Of(make.cases[i]).set_sequence(256);
  }
  BandwidthCase& rope = make.Add(ROPE, {x}, {x});
  make.Of(rope).set_sequence(256);
  make.Of(rope).set_head_size(128);
  make.Of(rope).set_base(10000);
  make.Of(rope).set_magnitude(1);
  // One head, with sequences as long as there are columns.
  make.Of(make.Add(ATTENTION_SOFTMAX, {x}, {x})).set_heads(1);
  make.Of(make.cases.back()).set_sequence(make.columns);
  make.Of(make.Add(ATTENTION_SOFTMAX_BACKWARD, {x, x}, {x})).set_heads(1);
  make.Of(make.cases.back()).set_sequence(make.columns);
}

void AddTokens(Maker& make, int64_t vocabulary) {
  const BandwidthOperand x = make.All(BF16), tokens = {INT32, {make.rows}, vocabulary};
  const BandwidthOperand table = {BF16, {vocabulary, make.columns}}, gradient = {FP32, {vocabulary, make.columns}};
  // A step reads only the named rows of a table and changes only those rows of its gradient. All named rows are
  // different.
  const int64_t unnamed = vocabulary - std::min(make.rows, vocabulary);
  make.Add(EMBEDDING, {tokens, table}, {x}).other_bytes = -unnamed * make.columns * 2;
  make.Accumulate(EMBEDDING_BACKWARD, "bf16", {tokens, x}, {gradient}).other_bytes -= 2 * unnamed * make.columns * 4;
  make.Add(EMBEDDING_BACKWARD, "bf16, the first", {tokens, x}, {gradient});
  const BandwidthOperand positions = {BF16, {256, make.columns}};
  make.Of(make.Add(POSITION_EMBEDDING, {positions}, {x})).set_sequence(256);
  make.Of(make.Accumulate(POSITION_EMBEDDING_BACKWARD, "bf16", {x}, {{FP32, {256, make.columns}}})).set_sequence(256);
  // About as many logits as activations.
  const int64_t rows = make.rows * make.columns / vocabulary + 1;
  const BandwidthOperand logits = {BF16, {rows, vocabulary}}, targets = {INT32, {rows}, vocabulary};
  const BandwidthOperand lse = {FP32, {rows}};
  const size_t first = make.cases.size();
  make.Add(CROSS_ENTROPY, {logits, targets}, {lse, {FP64, {1}}});
  make.Add(CROSS_ENTROPY_PARTIAL, {logits, targets}, {{FP32, {rows, 2}}});
  make.Add(CROSS_ENTROPY_BACKWARD, {logits, lse, targets}, {logits}).in_place[0] = 0;
  for (size_t i = first; i < make.cases.size(); ++i) {
    make.Of(make.cases[i]).set_vocabulary(vocabulary);
    make.Of(make.cases[i]).set_loss_weight(1);
  }
}

// Samples of 16 x 16 positions.
void AddImages(Maker& make) {
  constexpr int64_t kSide = 16, kSequence = kSide * kSide, kGroups = 16;
  const BandwidthOperand x = make.All(BF16), w = make.Row(BF16);
  const int64_t samples = make.rows / kSequence;
  const BandwidthOperand e = {BF16, {samples, make.columns}}, two = {BF16, {samples, 2 * make.columns}};
  const size_t first = make.cases.size();
  make.Add(ADD_PER_SAMPLE, {x, e}, {x});
  make.Add(SUM_PER_SAMPLE, {x}, {e});
  make.Add(SCALE_SHIFT, {x, two}, {x});
  make.Add(SCALE_SHIFT_BACKWARD, {x, two}, {x}).other_bytes = -e.Bytes();
  make.Add(SCALE_SHIFT_BACKWARD_SAMPLE, {x, x}, {two});
  make.Add(SQUARED_ERROR, {x, x}, {{FP64, {1}}});
  make.Add(SQUARED_ERROR_BACKWARD, {x, x}, {x});
  // The same number of elements, in 128 channels.
  constexpr int64_t kChannels = 128;
  const BandwidthOperand image = {BF16, {x.Elements() / kChannels, kChannels}}, of_channel = {BF16, {kChannels}};
  const BandwidthOperand s = {FP32, {x.Elements() / kChannels / kSequence, kGroups}}, gradient = {FP32, {kChannels}};
  make.Of(make.Add(GROUP_NORM, {image, of_channel, of_channel}, {image, s, s})).set_epsilon(1e-5);
  make.Add(GROUP_NORM_BACKWARD, {image, image, of_channel, s, s}, {image});
  make.Add(GROUP_NORM_BACKWARD_WEIGHT, {image, image, s, s}, {gradient, gradient});
  for (size_t i = first; i < make.cases.size(); ++i) {
    make.Of(make.cases[i]).set_sequence(kSequence);
    make.Of(make.cases[i]).set_groups(kGroups);
    make.Of(make.cases[i]).set_loss_weight(1);
  }
  const BandwidthOperand half = {BF16, {make.rows, make.columns / 2}}, small = {BF16, {make.rows / 4, make.columns}};
  make.Add(CONCAT_COLUMNS, {half, half}, {x});
  make.Add(SLICE_COLUMNS, {x}, {half}).other_bytes = -half.Bytes();
  for (const bool backward : {false, true}) {
    BandwidthCase& c = backward ? make.Add(UPSAMPLE_BACKWARD, {x}, {small}) : make.Add(UPSAMPLE, {small}, {x});
    make.Of(c).set_height(kSide / 2);
    make.Of(c).set_width(kSide / 2);
  }
}

// Launches of several steps: sums over rows with the step that makes the rows, and ADDs of the residual stream with
// norms.
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
  make.Of(adamw).set_beta1(0.9);
  make.Of(adamw).set_beta2(0.95);
  make.Of(adamw).set_epsilon(1e-8);
  adamw.in_place = {1, 2, 3, -1};
  adamw.context.learning_rate = 1e-3;
  // Moments and parameters in bf16, rounded stochastically.
  BandwidthCase& halves = make.Add(ADAMW, "bf16 at random", {x, single, x, x}, {single, x, x, x});
  make.Of(halves).set_beta1(0.9);
  make.Of(halves).set_beta2(0.999);
  make.Of(halves).set_epsilon(1e-8);
  make.Of(halves).set_rounding_site(1);
  halves.in_place = {1, 2, 3, -1};
  halves.context.learning_rate = 1e-3;
  BandwidthCase& sgd = make.Add(SGD_STEP, "fp32", {x, single, single}, {single, single, x});
  make.Of(sgd).set_momentum(0.9);
  sgd.in_place = {1, 2, -1};
  sgd.context.learning_rate = 1e-3;
  make.Add(SQUARED_NORM, "fp32", {single}, {{FP64, {1}}});
  make.Add(EXACT_ACCUMULATE, {x}, {exact}).other_bytes = exact.Bytes();
  make.Add(EXACT_ROUND, {exact}, {x});
  make.Add(ADD, "exact192", {exact, exact}, {exact}).in_place[0] = 0;
  make.Add(FILL, "exact192", {}, {exact});
}

}  // namespace

int64_t BandwidthOperand::Elements() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

int64_t BandwidthOperand::Bytes() const { return Elements() * BytesOfType(dtype); }

int64_t BandwidthCase::Bytes() const {
  int64_t bytes = other_bytes;
  for (const BandwidthOperand& operand : in) bytes += operand.Bytes();
  for (const BandwidthOperand& operand : out) bytes += operand.Bytes();
  return bytes;
}

std::vector<BandwidthCase> BandwidthCases(int64_t rows, int64_t columns, int64_t vocabulary) {
  Maker make(rows, columns);
  AddNorms(make, BF16, "bf16");
  AddNorms(make, FP32, "fp32");
  AddSplitNorms(make);
  AddElementwise(make);
  AddTokens(make, vocabulary);
  AddImages(make);
  AddOptimizer(make);
  AddLaunches(make, "bf16");
  // If `columns` is the width of Llama 3 8B, `other` is the width of GPT-2 1.5B.
  if (const int64_t other = columns * 25 / 64; other % 8 == 0) {
    Maker more(rows * columns / other, other);
    AddLaunches(more, absl::StrCat("bf16 of ", other));
    for (BandwidthCase& c : more.cases) make.cases.push_back(std::move(c));
  }
  // Rows that one warp handles, and rows that fill the registers of a block.
  for (const int64_t other : {columns / 4, 4 * columns}) {
    Maker more(rows * columns / other, other);
    AddNorms(more, BF16, absl::StrCat("bf16 of ", other));
    for (BandwidthCase& c : more.cases) make.cases.push_back(std::move(c));
  }
  return std::move(make.cases);
}

}  // namespace weft::exec::cuda
