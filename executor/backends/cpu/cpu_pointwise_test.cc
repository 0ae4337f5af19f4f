// Checks every formula of kernels/pointwise.def against a naive reference in double, also at extreme values.
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"

namespace weft::exec::cpu {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double NormalDensity(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double NormalDistribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
// Returns 2 u of the tanh approximation of GELU, whose factor is 0.5 (1 + tanh(u)) = sigmoid(2 u).
double TwiceU(double x) { return 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct PointwiseCase {
  PointwiseOp op;
  void (*reference)(const double* x, double* y);
  // Pairs of a value and the exact result for it. The value is that of input 0 of a forward formula, or of input 1 of a
  // backward one; all other inputs are 1.
  std::vector<std::pair<double, double>> extremes;
};

const PointwiseCase kCases[] = {
    {PointwiseOp::kGelu,
     [](const double* x, double* y) { y[0] = x[0] * NormalDistribution(x[0]); },
     {{1e30, 1e30}, {-1e30, 0}, {100, 100}, {-100, 0}, {0, 0}, {kNan, kNan}}},
    {PointwiseOp::kGeluTanh,
     [](const double* x, double* y) { y[0] = x[0] * Sigmoid(TwiceU(x[0])); },
     {{1e30, 1e30}, {-1e30, 0}, {100, 100}, {-100, 0}, {0, 0}, {kNan, kNan}}},
    {PointwiseOp::kGeluBackward,
     [](const double* x, double* y) { y[0] = x[0] * (NormalDistribution(x[1]) + x[1] * NormalDensity(x[1])); },
     {{1e30, 1}, {-1e30, 0}, {100, 1}, {-100, 0}, {0, 0.5}, {kNan, kNan}}},
    {PointwiseOp::kGeluTanhBackward,
     [](const double* x, double* y) {
       const double u = TwiceU(x[1]), slope = 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x[1] * x[1]);
       y[0] = x[0] * (Sigmoid(u) + x[1] * Sigmoid(u) * Sigmoid(-u) * slope);
     },
     {{1e30, 1}, {-1e30, 0}, {100, 1}, {-100, 0}, {0, 0.5}, {kNan, kNan}}},
    {PointwiseOp::kSilu,
     [](const double* x, double* y) { y[0] = x[0] * Sigmoid(x[0]); },
     {{1e4, 1e4}, {-1e4, 0}, {-200, 0}, {0, 0}, {kNan, kNan}}},
    {PointwiseOp::kSiluBackward,
     [](const double* x, double* y) { y[0] = x[0] * Sigmoid(x[1]) * (1 + x[1] * (1 - Sigmoid(x[1]))); },
     {{1e4, 1}, {-1e4, 0}, {0, 0.5}, {kNan, kNan}}},
    {PointwiseOp::kSwiglu,
     [](const double* x, double* y) { y[0] = x[0] * Sigmoid(x[0]) * x[1]; },
     {{1e30, 1e30}, {-1e4, 0}, {-200, 0}, {0, 0}, {kNan, kNan}}},
    {PointwiseOp::kSwigluBackward,
     [](const double* x, double* y) {
       const double s = Sigmoid(x[1]);
       y[0] = x[0] * x[2] * (s + x[1] * s * (1 - s));
       y[1] = x[0] * x[1] * s;
     },
     {{1e30, 1}, {200, 1}, {-200, 0}, {-1e30, 0}, {0, 0.5}, {kNan, kNan}}},
    {PointwiseOp::kReluSquared,
     [](const double* x, double* y) { y[0] = std::pow(std::fmax(x[0], 0), 2); },
     {{1e15, 1e30}, {-1e30, 0}, {0, 0}, {-0.0, 0}, {kNan, kNan}}},
    {PointwiseOp::kReluSquaredBackward,
     [](const double* x, double* y) { y[0] = 2 * std::fmax(x[1], 0) * x[0]; },
     {{1e30, 2e30}, {-1e30, 0}, {0, 0}, {3, 6}, {kNan, kNan}}},
};

struct Line {
  PointwiseOp op;
  size_t inputs, outputs;
  Kernel kernel;
  bool (*when)(const StepAttributes& a);
};
constexpr Line kLines[] = {
#define POINTWISE(op, inputs, outputs, kernel, when) \
  {PointwiseOp::op, inputs, outputs, kernel, [](const StepAttributes& a) -> bool { return when; }},
#include "kernels/pointwise.def"
#undef POINTWISE
};

// Returns a step that runs the formula of `line`.
Step StepOf(const Line& line) {
  Step step = MakeStep(line.kernel);
  step.mutable_attributes()->set_tanh_approximation(!line.when(step.attributes()));
  EXPECT_TRUE(line.when(step.attributes()));
  return step;
}

const PointwiseCase* CaseOf(const Line& line) {
  for (const PointwiseCase& c : kCases) {
    if (c.op == line.op) return &c;
  }
  return nullptr;
}

TEST(CpuPointwise, EveryFormulaIsThatOfItsReference) {
  std::mt19937_64 random(4);
  for (const Line& line : kLines) {
    const PointwiseCase* pointwise = CaseOf(line);
    ASSERT_NE(pointwise, nullptr) << Kernel_Name(line.kernel) << " has no case here";
    for (DType dtype : kDTypes) {
      for (int64_t n : {1, 7, 1024, 40000}) {
        KernelCase c;
        c.step = StepOf(line);
        c.name = absl::StrCat(c.step.ShortDebugString(), " ", DType_Name(dtype), " ", n);
        for (size_t i = 0; i < line.inputs; ++i) c.in.push_back(Normal(dtype, {n}, random, 3));
        for (size_t i = 0; i < line.outputs; ++i) c.out.push_back(Tensor(dtype, {n}));
        c.tolerance = ToleranceOf(dtype);
        c.reference = [&](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t e = 0; e < n; ++e) {
            double x[3], y[2];
            for (size_t i = 0; i < in.size(); ++i) x[i] = in[i][e];
            pointwise->reference(x, y);
            for (size_t i = 0; i < expected.size(); ++i) expected[i][e] = y[i];
          }
        };
        Check(c);
      }
    }
  }
}

TEST(CpuPointwise, ExtremeValues) {
  for (const Line& line : kLines) {
    const PointwiseCase* pointwise = CaseOf(line);
    ASSERT_NE(pointwise, nullptr);
    const int64_t n = static_cast<int64_t>(pointwise->extremes.size());
    const bool backward = Kernel_Name(line.kernel).find("_BACKWARD") != std::string::npos;
    for (DType dtype : {FP64, FP32}) {
      std::vector<Tensor> in(line.inputs, Tensor(dtype, {n})), out(line.outputs, Tensor(dtype, {n}));
      for (size_t i = 0; i < in.size(); ++i) {
        for (int64_t e = 0; e < n; ++e) in[i].Set(e, i == (backward ? 1 : 0) ? pointwise->extremes[e].first : 1);
      }
      ASSERT_TRUE(RunStep(*MakeCpuBackend(1), StepOf(line), in, out).ok());
      for (int64_t e = 0; e < n; ++e) {
        const auto [x, expected] = pointwise->extremes[e];
        SCOPED_TRACE(absl::StrCat(Kernel_Name(line.kernel), " of ", x, " in ", DType_Name(dtype)));
        if (std::isnan(expected)) {
          for (const Tensor& tensor : out) EXPECT_TRUE(std::isnan(tensor.Get(e)));
        } else {
          EXPECT_NEAR(out[0].Get(e), expected, 1e-6 * std::abs(expected) + 1e-30);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::exec::cpu
