#include "executor/backends/cuda/bandwidth_cases.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace weft::cuda {
namespace {

int64_t BytesOfType(DType dtype) {
  return dtype == FP64 ? 8 : dtype == EXACT192 ? 24 : dtype == UINT8 ? 1 : dtype == BF16 || dtype == FP16 ? 2 : 4;
}

class Maker {
 public:
  // Of an activation's type in the name.
  BandwidthCase& Add(Kernel kernel, DType dtype, std::vector<BandwidthOperand> in, std::vector<BandwidthOperand> out) {
    BandwidthCase c;
    c.name = absl::StrCat(Kernel_Name(kernel), " ", absl::AsciiStrToLower(DType_Name(dtype)));
    c.step.set_name(c.name);
    c.step.set_kernel(kernel);
    c.in = std::move(in);
    c.out = std::move(out);
    c.in_place.assign(c.out.size(), -1);
    cases.push_back(std::move(c));
    return cases.back();
  }
  std::vector<BandwidthCase> cases;
};

}  // namespace

int64_t BandwidthOperand::Elements() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

int64_t BandwidthOperand::Bytes() const { return Elements() * BytesOfType(dtype); }

int64_t BandwidthCase::Bytes() const {
  int64_t bytes = step.accumulate() ? out[0].Bytes() : 0;
  // Only the rows that are asked for are read of a table.
  for (size_t i = 0; i < in.size(); ++i) {
    bytes += step.kernel() == EMBEDDING && i == 1 ? out[0].Bytes() : in[i].Bytes();
  }
  for (const BandwidthOperand& operand : out) bytes += operand.Bytes();
  return bytes;
}

std::vector<BandwidthCase> BandwidthCases(int64_t rows, int64_t columns, int64_t vocabulary) {
  Maker make;
  const BandwidthOperand x = {BF16, {rows, columns}}, gamma = {BF16, {columns}}, per_row = {FP32, {rows}};
  const BandwidthOperand master = {FP32, {rows, columns}}, small_gradient = {FP32, {columns}};
  make.Add(LAYER_NORM, BF16, {x, gamma, gamma}, {x, per_row, per_row}).step.mutable_attributes()->set_epsilon(1e-5);
  make.Add(LAYER_NORM_BACKWARD, BF16, {x, x, gamma, per_row, per_row}, {x}).step.set_accumulate(true);
  make.Add(LAYER_NORM_BACKWARD_WEIGHT, BF16, {x, x, per_row, per_row}, {small_gradient, small_gradient});
  make.Add(RMS_NORM, BF16, {x, gamma}, {x, per_row}).step.mutable_attributes()->set_epsilon(1e-5);
  make.Add(RMS_NORM_BACKWARD, BF16, {x, x, gamma, per_row}, {x}).step.set_accumulate(true);
  make.Add(RMS_NORM_BACKWARD_WEIGHT, BF16, {x, x, per_row}, {small_gradient});
  {
    BandwidthCase& c = make.Add(ROPE, BF16, {x}, {x});
    c.step.mutable_attributes()->set_sequence(256);
    c.step.mutable_attributes()->set_head_size(128);
    c.step.mutable_attributes()->set_base(10000);
    c.step.mutable_attributes()->set_magnitude(1);
  }
  make.Add(SWIGLU, BF16, {x, x}, {x});
  make.Add(SWIGLU_BACKWARD, BF16, {x, x, x}, {x, x});
  make.Add(GELU, BF16, {x}, {x}).step.mutable_attributes()->set_tanh_approximation(true);
  make.Add(GELU_BACKWARD, BF16, {x, x}, {x}).step.mutable_attributes()->set_tanh_approximation(true);
  make.Add(SILU, BF16, {x}, {x});
  make.Add(ADD, BF16, {x, x}, {x});
  make.Add(BIAS_ADD, BF16, {x, gamma}, {x});
  make.Add(BIAS_GRADIENT, BF16, {x}, {small_gradient}).step.set_accumulate(true);
  make.Add(CAST, FP32, {master}, {x});
  make.Add(FILL, FP32, {}, {master});
  make.Add(SCALE, FP32, {{FP64, {2}}, master}, {master}).in_place[0] = 1;
  {
    BandwidthCase& c = make.Add(DROPOUT, BF16, {x}, {x});
    c.step.mutable_attributes()->set_dropout(0.1);
    c.step.mutable_attributes()->set_sequence(256);
  }
  const BandwidthOperand tokens = {INT32, {rows}, vocabulary}, table = {BF16, {vocabulary, columns}};
  make.Add(EMBEDDING, BF16, {tokens, table}, {x});
  make.Add(EMBEDDING_BACKWARD, BF16, {tokens, x}, {{FP32, {vocabulary, columns}}}).step.set_accumulate(true);
  {
    // As many logits as activations, about.
    const int64_t logit_rows = rows * columns / vocabulary + 1;
    const BandwidthOperand logits = {BF16, {logit_rows, vocabulary}}, targets = {INT32, {logit_rows}, vocabulary};
    const BandwidthOperand lse = {FP32, {logit_rows}};
    BandwidthCase& forward = make.Add(CROSS_ENTROPY, BF16, {logits, targets}, {lse, {FP64, {1}}});
    forward.step.mutable_attributes()->set_vocabulary(vocabulary);
    forward.step.mutable_attributes()->set_loss_weight(1);
    BandwidthCase& backward = make.Add(CROSS_ENTROPY_BACKWARD, BF16, {logits, lse, targets}, {logits});
    backward.step.mutable_attributes()->set_vocabulary(vocabulary);
    backward.step.mutable_attributes()->set_loss_weight(1);
    backward.in_place[0] = 0;
  }
  {
    BandwidthCase& c = make.Add(ADAMW, FP32, {x, master, master, master}, {master, master, master, x});
    c.step.mutable_attributes()->set_beta1(0.9);
    c.step.mutable_attributes()->set_beta2(0.95);
    c.step.mutable_attributes()->set_epsilon(1e-8);
    c.in_place = {1, 2, 3, -1};
    c.context.learning_rate = 1e-3;
  }
  make.Add(SQUARED_NORM, FP32, {master}, {{FP64, {1}}});
  make.Add(EXACT_ACCUMULATE, BF16, {x}, {{EXACT192, {rows, columns}}});
  return std::move(make.cases);
}

}  // namespace weft::cuda
