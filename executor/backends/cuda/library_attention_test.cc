// On a GPU, compares the backend's attention, which cuDNN runs, with our own kernels on tensor cores. The sizes are
// those of the speed measurements in docs/gpu-results.md; cuDNN computes one of them in slices of heads. The emulation
// has no cuDNN: our kernels without tensor cores replace it, at sizes that the emulation can handle.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/conformance/machine.h"
#include "executor/backends/cuda/conformance/placed_tensors.h"
#include "executor/backends/cuda/kernels/flash_attention.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;

struct Sizes {
  int64_t sequences, sequence, heads, kv_heads, width;

  int64_t rows() const { return sequences * sequence; }
};

std::vector<Sizes> SizesOfMachine() {
  if (TheMachine().device->asynchronous()) return {{4, 1024, 32, 8, 128}, {1, 8192, 32, 8, 128}};
  return {{2, 70, 4, 1, 128}, {1, 130, 8, 2, 128}};
}

// Normally distributed values from a table, so that a sequence of 8192 is drawn quickly. The table's length has no
// divisor in common with rows or columns.
Tensor Normals(int64_t rows, int64_t columns, int64_t seed) {
  static const std::vector<uint16_t>& table = *[] {
    constexpr int64_t kLength = 1'000'003;
    Tensor drawn(BF16, {kLength});
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < kLength; ++i) drawn.Set(i, normal(random));
    const auto* bits = drawn.data<uint16_t>();
    return new std::vector<uint16_t>(bits, bits + kLength);
  }();
  Tensor tensor(BF16, {rows, columns});
  auto* to = tensor.data<uint16_t>();
  size_t at = static_cast<size_t>(seed) * 99'991 % table.size();
  for (int64_t i = 0; i < rows * columns; ++i) {
    to[i] = table[at];
    if (++at == table.size()) at = 0;
  }
  return tensor;
}

float FloatOf(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Relative error: the norm of `have` - `want`, divided by the norm of `want`. NaN if a value is NaN.
template <typename T>
double Apart(Tensor& have, Tensor& want) {
  double difference = 0, norm = 0;
  const T *a = have.data<T>(), *b = want.data<T>();
  for (int64_t i = 0; i < want.size(); ++i) {
    double x = 0, y = 0;
    if constexpr (sizeof(T) == 2) {
      x = FloatOf(a[i]);
      y = FloatOf(b[i]);
    } else {
      x = a[i];
      y = b[i];
    }
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

// Tensors of one problem: the inputs, and two of each result, the library's and ours.
struct Attention {
  explicit Attention(const Sizes& s)
      : sizes(s),
        q(Normals(s.rows(), s.heads * s.width, 1)),
        k(Normals(s.rows(), s.kv_heads * s.width, 2)),
        v(Normals(s.rows(), s.kv_heads * s.width, 3)),
        d_o(Normals(s.rows(), s.heads * s.width, 4)) {
    for (int i = 0; i < 2; ++i) {
      o.push_back(Tensor(BF16, q.shape()));
      lse.push_back(Tensor(FP32, {s.rows(), s.heads}));
      dq.push_back(Tensor(BF16, q.shape()));
      dk.push_back(Tensor(BF16, k.shape()));
      dv.push_back(Tensor(BF16, v.shape()));
      // Elements that no kernel writes are NaN.
      for (Tensor* made : {&o[i], &lse[i], &dq[i], &dk[i], &dv[i]}) {
        std::memset(made->data<char>(), 0xff, made->bytes().size() - 64);
      }
    }
  }

  Step StepOf(Kernel kernel) const {
    Step step;
    step.set_name(Kernel_Name(kernel));
    step.set_kernel(kernel);
    StepAttributes* a = step.mutable_attributes();
    a->set_heads(sizes.heads);
    a->set_kv_heads(sizes.kv_heads);
    a->set_sequence(sizes.sequence);
    a->set_causal(true);
    a->set_scale(1 / std::sqrt(static_cast<double>(sizes.width)));
    return step;
  }

  // The problem for our own kernels, on the placed tensors.
  AttentionProblem Problem(const TensorView& at_q, const TensorView& at_k, const TensorView& at_v,
                           const TensorView& at_o, const TensorView& at_lse) const {
    AttentionProblem problem;
    problem.shape = {sizes.sequences, sizes.sequence, sizes.heads, sizes.kv_heads, sizes.width};
    problem.causal = true;
    problem.scale = 1 / std::sqrt(static_cast<double>(sizes.width));
    problem.q = Part(at_q);
    problem.k = Part(at_k);
    problem.v = Part(at_v);
    problem.o = Part(at_o);
    problem.lse = {at_lse.data, Type::kFp32};
    return problem;
  }
  HeadPart Part(const TensorView& view) const { return {{view.data, Type::kBf16}, view.shape[1], 0, sizes.width}; }

  Sizes sizes;
  Tensor q, k, v, d_o;
  std::vector<Tensor> o, lse, dq, dk, dv;
};

// Expects results that are close but not equal. Equal bits would mean that the same kernels ran twice, because cuDNN
// refused the problem.
void ExpectClose(Tensor& library, Tensor& own, const char* name) {
  EXPECT_LE(Apart<uint16_t>(library, own), 1e-2) << name;
  EXPECT_FALSE(library.bytes() == own.bytes()) << name;
  EXPECT_TRUE(library.GuardIntact() && own.GuardIntact()) << name;
}

TEST(LibraryAttentionTest, IsThatOfOurOwnKernels) {
  for (const Sizes& sizes : SizesOfMachine()) {
    SCOPED_TRACE(testing::Message() << sizes.sequences << " x " << sizes.sequence);
    Attention a(sizes);
    PlacedTensors placed;
    const auto place = [&](Tensor& tensor) {
      const auto view = placed.Place(tensor);
      EXPECT_TRUE(view.ok()) << view.status();
      return view.ok() ? *view : tensor.view();
    };
    const TensorView q = place(a.q), k = place(a.k), v = place(a.v), d_o = place(a.d_o);
    std::vector<TensorView> o, lse, dq, dk, dv;
    for (int i = 0; i < 2; ++i) {
      o.push_back(place(a.o[i]));
      lse.push_back(place(a.lse[i]));
      dq.push_back(place(a.dq[i]));
      dk.push_back(place(a.dk[i]));
      dv.push_back(place(a.dv[i]));
    }
    ASSERT_FALSE(HasFailure());
    StepContext context;
    context.stream = TheStream();
    void* const stream = TheMachine().device->NativeStream(TheStream());
    const auto forward = [&](int i) { return AttentionForward{a.Problem(q, k, v, o[i], lse[i])}; };
    // Both backward passes start from the forward results of the library.
    const auto backward = [&](int i) {
      return AttentionGradient{a.Problem(q, k, v, o[0], lse[0]), a.Part(d_o), a.Part(dq[i]), a.Part(dk[i]),
                               a.Part(dv[i])};
    };
    absl::Status status;
    if (TheMachine().device->asynchronous()) {
      Backend& backend = *TheMachine().backend;
      status = backend.Run(a.StepOf(ATTENTION), {q, k, v}, {o[0], lse[0]}, context);
      ASSERT_TRUE(status.ok()) << status;
      status = backend.Run(a.StepOf(ATTENTION_BACKWARD), {d_o, q, k, v, o[0], lse[0]}, {dq[0], dk[0], dv[0]}, context);
      ASSERT_TRUE(status.ok()) << status;
    } else {
      ASSERT_EQ(LaunchPlain(forward(0), stream), nullptr);
      ASSERT_EQ(LaunchPlain(backward(0), stream), nullptr);
    }
    ASSERT_TRUE(OnTensorCores(forward(1)) && OnTensorCores(backward(1)));
    ASSERT_EQ(Launch(forward(1), stream), nullptr);
    ASSERT_EQ(Launch(backward(1), stream), nullptr);
    status = placed.Fetch();
    ASSERT_TRUE(status.ok()) << status;
    ExpectClose(a.o[0], a.o[1], "o");
    EXPECT_LE(Apart<float>(a.lse[0], a.lse[1]), 1e-4);
    ExpectClose(a.dq[0], a.dq[1], "dq");
    ExpectClose(a.dk[0], a.dk[1], "dk");
    ExpectClose(a.dv[0], a.dv[1], "dv");
  }
}

}  // namespace
}  // namespace weft::exec::cuda
