// Checks every backward kernel of language models against finite differences of its forward kernel
// (cpu_gradient_testing.h).
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_gradient_testing.h"
#include "kernels/rows.h"

namespace weft::exec::cpu {
namespace {

TEST_F(GradientTest, MatMulWithBias) {
  for (int flags = 0; flags < 4; ++flags) {
    const bool ta = flags & 1, tb = flags & 2;
    const int64_t m = 7, n = 9, k = 5;
    const std::vector<int64_t> a_shape = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
    const std::vector<int64_t> b_shape = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
    Step step;
    step.set_kernel(MATMUL);
    step.mutable_attributes()->set_transpose_a(ta);
    step.mutable_attributes()->set_transpose_b(tb);
    const Tensors x = {Normal(FP64, a_shape, random_), Normal(FP64, b_shape, random_), Normal(FP64, {n}, random_)};
    Check(
        "MATMUL", x, [&](Tensors in) { return Run(step, in, {Tensor(FP64, {m, n})})[0]; },
        [&](const Tensor& dy) {
          // da = dy op(b)^T and db = op(a)^T dy, or their transposes.
          const auto product = [&](const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                                   std::vector<int64_t> shape) {
            Step multiply;
            multiply.set_kernel(MATMUL);
            multiply.mutable_attributes()->set_transpose_a(transpose_a);
            multiply.mutable_attributes()->set_transpose_b(transpose_b);
            return Run(multiply, {a, b}, {Tensor(FP64, shape)})[0];
          };
          const Tensor da = ta ? product(x[1], tb, dy, true, a_shape) : product(dy, false, x[1], !tb, a_shape);
          const Tensor db = tb ? product(dy, true, x[0], ta, b_shape) : product(x[0], !ta, dy, false, b_shape);
          return Tensors{da, db, Run(BIAS_GRADIENT, {dy}, {Tensor(FP64, {n})})[0]};
        });
  }
}

TEST_F(GradientTest, LayerNorm) {
  const int64_t rows = 6, d = 37;
  Step step;
  step.set_kernel(LAYER_NORM);
  step.mutable_attributes()->set_epsilon(1e-3);
  const Tensors outputs = {Tensor(FP64, {rows, d}), Tensor(FP64, {rows}), Tensor(FP64, {rows})};
  const Tensors x = {Normal(FP64, {rows, d}, random_), Normal(FP64, {d}, random_), Normal(FP64, {d}, random_)};
  Check(
      "LAYER_NORM", x, [&](Tensors in) { return Run(step, in, outputs)[0]; },
      [&](const Tensor& dy) {
        const Tensors forward = Run(step, x, outputs);
        const Tensors dx =
            Run(LAYER_NORM_BACKWARD, {dy, x[0], x[1], forward[1], forward[2]}, {Tensor(FP64, {rows, d})});
        const Tensors dw =
            Run(LAYER_NORM_BACKWARD_WEIGHT, {dy, x[0], forward[1], forward[2]}, {Tensor(FP64, {d}), Tensor(FP64, {d})});
        return Tensors{dx[0], dw[0], dw[1]};
      });
}

TEST_F(GradientTest, Pointwise) {
  for (const kernels::KernelRow& row : kernels::kPointwiseRows) {
    Step backward;
    Kernel kernel;
    if (!row.pointwise || !Kernel_Parse(absl::StrCat(Kernel_Name(row.kernel), "_BACKWARD"), &kernel)) continue;
    backward.set_kernel(kernel);
    for (bool tanh_approximation : {false, true}) {
      if (tanh_approximation && row.attributes.empty()) continue;
      backward.mutable_attributes()->set_tanh_approximation(tanh_approximation);
      Step step = backward;
      step.set_kernel(row.kernel);
      Tensors x;
      for (size_t i = 0; i < row.inputs.size(); ++i) {
        x.push_back(Normal(FP64, {500}, random_, 2));
        // Moves elements away from 0, where a second derivative may jump: finite differences across a jump converge
        // slowly.
        for (int64_t e = 0; e < x[i].size(); ++e) x[i].Set(e, x[i].Get(e) + std::copysign(0.01, x[i].Get(e)));
      }
      Check(
          Kernel_Name(row.kernel), x, [&](Tensors in) { return Run(step, in, {Tensor(FP64, {500})})[0]; },
          [&](const Tensor& dy) {
            Tensors in = {dy};
            in.insert(in.end(), x.begin(), x.end());
            return Run(backward, in, x);
          });
    }
  }
}

TEST_F(GradientTest, Attention) {
  for (int flags = 0; flags < 8; ++flags) {
    const int64_t sequences = 2, sequence = 53, heads = 2, width = 10, rows = sequences * sequence;
    Step step;
    step.set_kernel(ATTENTION);
    StepAttributes& attributes = *step.mutable_attributes();
    attributes.set_heads(heads);
    attributes.set_sequence(sequence);
    attributes.set_causal(flags & 1);
    attributes.set_dropout(flags & 2 ? 0.25 : 0);
    attributes.set_qkv_by_head(flags & 4);
    attributes.set_dropout_site(3);
    attributes.set_scale(0.4);
    StepContext context;
    context.seed = 5;
    context.microbatch_sequences = sequences;
    const Tensors outputs = {Tensor(FP64, {rows, width}), Tensor(FP64, {rows, heads})};
    const Tensors x = {Normal(FP64, {rows, 3 * width}, random_)};
    Check(
        "ATTENTION", x, [&](Tensors in) { return Run(step, in, outputs, context)[0]; },
        [&](const Tensor& dy) {
          const Tensors forward = Run(step, x, outputs, context);
          Step backward = step;
          backward.set_kernel(ATTENTION_BACKWARD);
          return Run(backward, {dy, x[0], forward[0], forward[1]}, {Tensor(FP64, {rows, 3 * width})}, context);
        });
  }
}

// q, k and v are separate tensors, and several heads of q share a head of k and v. Tries windows and no windows.
TEST_F(GradientTest, GroupedAttention) {
  for (int flags = 0; flags < 6; ++flags) {
    const int64_t sequences = 2, sequence = 53, heads = 4, kv_heads = flags % 2 == 0 ? 2 : 1, width = 6;
    const int64_t rows = sequences * sequence;
    Step step;
    step.set_kernel(ATTENTION);
    StepAttributes& attributes = *step.mutable_attributes();
    attributes.set_heads(heads);
    attributes.set_kv_heads(kv_heads);
    attributes.set_sequence(sequence);
    attributes.set_causal(flags >= 2);
    attributes.set_window(flags >= 4 ? 7 : 0);
    attributes.set_dropout(flags % 2 == 0 ? 0.25 : 0);
    attributes.set_scale(0.4);
    StepContext context;
    context.seed = 5;
    context.microbatch_sequences = sequences;
    const Tensors outputs = {Tensor(FP64, {rows, heads * width}), Tensor(FP64, {rows, heads})};
    const Tensors x = {Normal(FP64, {rows, heads * width}, random_), Normal(FP64, {rows, kv_heads * width}, random_),
                       Normal(FP64, {rows, kv_heads * width}, random_)};
    Check(
        "ATTENTION of groups", x, [&](Tensors in) { return Run(step, in, outputs, context)[0]; },
        [&](const Tensor& dy) {
          const Tensors forward = Run(step, x, outputs, context);
          Step backward = step;
          backward.set_kernel(ATTENTION_BACKWARD);
          return Run(backward, {dy, x[0], x[1], x[2], forward[0], forward[1]}, x, context);
        });
  }
}

TEST_F(GradientTest, RmsNorm) {
  const int64_t rows = 6, d = 37;
  Step step;
  step.set_kernel(RMS_NORM);
  step.mutable_attributes()->set_epsilon(1e-3);
  const Tensors outputs = {Tensor(FP64, {rows, d}), Tensor(FP64, {rows})};
  const Tensors x = {Normal(FP64, {rows, d}, random_), Normal(FP64, {d}, random_)};
  Check(
      "RMS_NORM", x, [&](Tensors in) { return Run(step, in, outputs)[0]; },
      [&](const Tensor& dy) {
        const Tensors forward = Run(step, x, outputs);
        return Tensors{Run(RMS_NORM_BACKWARD, {dy, x[0], x[1], forward[1]}, {Tensor(FP64, {rows, d})})[0],
                       Run(RMS_NORM_BACKWARD_WEIGHT, {dy, x[0], forward[1]}, {Tensor(FP64, {d})})[0]};
      });
}

TEST_F(GradientTest, Rope) {
  Step step;
  step.set_kernel(ROPE);
  StepAttributes& attributes = *step.mutable_attributes();
  attributes.set_sequence(5);
  attributes.set_head_size(6);
  attributes.set_base(100);
  attributes.set_magnitude(1.25);
  const Tensors x = {Normal(FP64, {10, 18}, random_)};
  Check(
      "ROPE", x, [&](Tensors in) { return Run(step, in, {Tensor(FP64, {10, 18})})[0]; },
      [&](const Tensor& dy) {
        Step backward = step;
        backward.mutable_attributes()->set_inverse(true);
        return Run(backward, {dy}, {Tensor(FP64, {10, 18})});
      });
}

TEST_F(GradientTest, Embeddings) {
  const int64_t rows = 12, vocabulary = 5, d = 70, sequence = 4;
  Tensor tokens(INT32, {rows});
  for (int64_t i = 0; i < rows; ++i) tokens.Set(i, static_cast<double>(random_() % vocabulary));
  const Tensors table = {Normal(FP64, {vocabulary, d}, random_)};
  Check(
      "EMBEDDING", table, [&](Tensors in) { return Run(EMBEDDING, {tokens, in[0]}, {Tensor(FP64, {rows, d})})[0]; },
      [&](const Tensor& dy) { return Run(EMBEDDING_BACKWARD, {tokens, dy}, {Tensor(FP64, {vocabulary, d})}); });
  Step step;
  step.mutable_attributes()->set_sequence(sequence);
  Check(
      "POSITION_EMBEDDING", table,
      [&](Tensors in) {
        step.set_kernel(POSITION_EMBEDDING);
        return Run(step, in, {Tensor(FP64, {rows, d})})[0];
      },
      [&](const Tensor& dy) {
        step.set_kernel(POSITION_EMBEDDING_BACKWARD);
        return Run(step, {dy}, {Tensor(FP64, {vocabulary, d})});
      });
}

TEST_F(GradientTest, DropoutIsItsOwnDerivative) {
  Step step;
  step.set_kernel(DROPOUT);
  step.mutable_attributes()->set_dropout(0.4);
  StepContext context;
  context.microbatch_sequences = 2;
  const Tensors x = {Normal(FP64, {10, 33}, random_)};
  const auto apply = [&](Tensors in) { return Run(step, in, {Tensor(FP64, {10, 33})}, context)[0]; };
  Check("DROPOUT", x, apply, [&](const Tensor& dy) { return Tensors{apply({dy})}; });
}

TEST_F(GradientTest, CrossEntropy) {
  const int64_t rows = 8, vocabulary = 21, padded = 24;
  Tensor targets(INT32, {rows});
  for (int64_t i = 0; i < rows; ++i) targets.Set(i, i == 3 ? -1 : static_cast<double>(random_() % vocabulary));
  Step step;
  step.set_kernel(CROSS_ENTROPY);
  step.mutable_attributes()->set_vocabulary(vocabulary);
  // The backward kernel assumes that the gradient of the loss is 1. The test passes the magnitude of dy as loss_weight
  // and applies the sign of dy to the result.
  const Tensors x = {Normal(FP64, {rows, padded}, random_)};
  const Tensors outputs = {Tensor(FP64, {rows}), Tensor(FP64, {1})};
  step.mutable_attributes()->set_loss_weight(1);
  Check(
      "CROSS_ENTROPY", x, [&](Tensors in) { return Run(step, {in[0], targets}, outputs)[1]; },
      [&](const Tensor& dy) {
        const Tensors forward = Run(step, {x[0], targets}, outputs);
        Step backward = step;
        backward.set_kernel(CROSS_ENTROPY_BACKWARD);
        backward.mutable_attributes()->set_loss_weight(std::abs(dy.Get(0)));
        Tensors dx = Run(backward, {x[0], forward[0], targets}, {Tensor(FP64, {rows, padded})});
        for (int64_t i = 0; i < dx[0].size(); ++i) dx[0].Set(i, std::copysign(1, dy.Get(0)) * dx[0].Get(i));
        return dx;
      });
}

}  // namespace
}  // namespace weft::exec::cpu
