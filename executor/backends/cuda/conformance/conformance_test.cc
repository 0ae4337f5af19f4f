// Compares every kernel of proto/program.proto on the CUDA backend with the CPU backend: random shapes, types,
// attributes and data, poisoned outputs. Linked with the emulation, the test needs no GPU; the same test runs on a GPU.
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu.h"
#include "executor/backends/cuda/conformance/conformance_case.h"
#include "executor/backends/cuda/conformance/machine.h"
#include "executor/backends/cuda/conformance/placed_tensors.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "gtest/gtest.h"
#include "kernels/check_alone.h"
#include "kernels/traits.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

constexpr int kRounds = 16;
constexpr DType kDTypes[] = {FP32, BF16, FP64, FP16};

int64_t BytesOf(const Tensor& tensor) { return static_cast<int64_t>(tensor.bytes().size()) - 64; }

bool Keeps(const ConformanceCase& c, int output) {
  if (output == 0 && c.step.accumulate()) return true;
  // LAYER_NORM_BACKWARD_WEIGHT and others accumulate into all their outputs.
  if (c.step.accumulate() && c.out.size() > 1) return true;
  return std::find(c.updated.begin(), c.updated.end(), output) != c.updated.end();
}

// Runs the case on TheMachine(). Afterwards `in` and `out` hold the contents that the kernel left in memory.
absl::Status RunOnMachine(const ConformanceCase& c, std::vector<Tensor>& in, std::vector<Tensor>& out) {
  static const int event = TheMachine().device->NewEvent(false).value();
  std::map<int, int> shared(c.in_place.begin(), c.in_place.end());
  std::vector<TensorView> in_views, out_views;
  PlacedTensors placed;
  for (Tensor& tensor : in) {
    WEFT_ASSIGN_OR_RETURN(in_views.emplace_back(), placed.Place(tensor));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const auto with = shared.find(static_cast<int>(i));
    if (with != shared.end()) {
      TensorView same = in_views[with->second];
      same.dtype = out[i].dtype();
      same.shape = out[i].shape();
      out_views.push_back(same);
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(out_views.emplace_back(), placed.Place(out[i]));
  }
  StepContext context = c.context;
  context.stream = TheStream();
  Machine& machine = TheMachine();
  WEFT_RETURN_IF_ERROR(machine.backend->Run(c.step, in_views, out_views, context));
  WEFT_RETURN_IF_ERROR(machine.device->Record(event, context.stream));
  WEFT_RETURN_IF_ERROR(machine.device->Synchronize(event));
  WEFT_RETURN_IF_ERROR(placed.Fetch());
  for (const auto& [output, input] : shared) out[output] = in[input];
  return absl::OkStatus();
}

// Returns the tensor in fp64 with the same values. Integers, masks and exact sums are returned unchanged.
Tensor Widened(const Tensor& tensor) {
  if (tensor.dtype() != FP32 && tensor.dtype() != BF16 && tensor.dtype() != FP16) return tensor;
  Tensor wide(FP64, tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i) wide.Set(i, tensor.Get(i));
  return wide;
}

// Returns the tensor with the same bits for every NaN: docs/kernels.md does not say which NaN a kernel makes, and a
// GPU's conversions make another one than the host's.
Tensor WithOneNan(const Tensor& tensor) {
  Tensor one = tensor;
  if (tensor.dtype() == INT32 || tensor.dtype() == UINT8 || tensor.dtype() == EXACT192) return one;
  for (int64_t i = 0; i < one.size(); ++i) {
    if (std::isnan(one.Get(i))) one.Set(i, std::numeric_limits<double>::quiet_NaN());
  }
  return one;
}

double Bound(DType dtype) { return dtype == FP64 ? 1e-11 : dtype == FP32 ? 1e-5 : 1e-2; }

void Compare(const ConformanceCase& c, DType computed, const std::vector<Tensor>& expected,
             const std::vector<Tensor>& got) {
  for (size_t i = 0; i < got.size(); ++i) {
    const DType dtype = got[i].dtype();
    if (c.exact || dtype == INT32 || dtype == UINT8 || dtype == EXACT192) {
      EXPECT_EQ(WithOneNan(expected[i]).bytes(), WithOneNan(got[i]).bytes())
          << "output " << i << " is not exactly that of the CPU";
      continue;
    }
    double difference = 0, norm = 0;
    for (int64_t e = 0; e < got[i].size(); ++e) {
      const double want = expected[i].Get(e), have = got[i].Get(e);
      if (std::isnan(want) ? std::isnan(have) : std::isinf(want) && want == have) continue;
      // If only one of the values is a NaN, the sum becomes a NaN, which fails every bound.
      const double off = std::max(std::abs(have - want) - (i == 0 && !c.slack.empty() ? c.slack[e] : 0), 0.0);
      difference += off * off;
      norm += want * want;
    }
    const double bound = std::max(Bound(dtype), Bound(computed == FP64 ? FP64 : FP32)) * c.tolerance_factor;
    if (std::sqrt(difference) <= bound * std::sqrt(norm)) continue;
    ADD_FAILURE() << "output " << i << ": " << std::sqrt(difference / norm) << " of the norm, at most " << bound;
    int shown = 0;
    for (int64_t e = 0; e < got[i].size() && shown < 5; ++e) {
      const double want = expected[i].Get(e), have = got[i].Get(e);
      if (std::abs(have - want) <= 3 * bound * std::max(std::abs(want), std::sqrt(norm / got[i].size()))) continue;
      std::cerr << "  [" << e << "] is " << have << ", expected " << want << "\n";
      ++shown;
    }
  }
}

std::string Shapes(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) {
    absl::StrAppend(&text, " ", DType_Name(tensor.dtype()), "[");
    for (size_t i = 0; i < tensor.shape().size(); ++i) absl::StrAppend(&text, i > 0 ? "," : "", tensor.shape()[i]);
    absl::StrAppend(&text, "]");
  }
  return text;
}

void Check(const ConformanceCase& c, DType dtype) {
  // Unless the case is exact, the CPU computes the reference in fp64 on the same values.
  std::vector<Tensor> cpu_in, cpu_out;
  for (const Tensor& tensor : c.in) cpu_in.push_back(c.exact ? tensor : Widened(tensor));
  for (const Tensor& tensor : c.out) cpu_out.push_back(c.exact ? tensor : Widened(tensor));
  // A product in TF32 is compared with the product of the unrounded factors.
  Step step = c.step;
  step.mutable_attributes()->set_tf32(false);
  static auto* cpu = MakeCpuBackend(1).release();
  const absl::Status on_cpu = cpu::RunStep(*cpu, step, cpu_in, cpu_out, c.context);
  ASSERT_TRUE(on_cpu.ok()) << "the case itself is wrong: " << on_cpu;

  std::vector<Tensor> first;
  for (int run = 0; run < 2; ++run) {
    if (TheMachine().set_reversed != nullptr) TheMachine().set_reversed(run == 1);
    std::vector<Tensor> in = c.in, out = c.out;
    for (size_t i = 0; i < out.size(); ++i) {
      if (!Keeps(c, static_cast<int>(i)) && BytesOf(out[i]) > 0)
        std::memset(out[i].data<char>(), 0xff, BytesOf(out[i]));
    }
    const absl::Status status = RunOnMachine(c, in, out);
    ASSERT_TRUE(status.ok()) << status;
    std::set<int> changed;
    for (const auto& [output, input] : c.in_place) changed.insert(input);
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_TRUE(in[i].GuardIntact()) << "wrote behind the end of input " << i;
      if (changed.count(static_cast<int>(i)) == 0) {
        EXPECT_EQ(in[i].bytes(), c.in[i].bytes()) << "changed input " << i;
      }
    }
    for (size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(out[i].GuardIntact()) << "wrote behind the end of output " << i;
    if (run == 0) {
      first = out;
      Compare(c, dtype, cpu_out, out);
    } else {
      for (size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(out[i].bytes(), first[i].bytes()) << "output " << i << " has other bits the second time";
      }
    }
  }
}

// Returns why the step does not fit the row of its kernel. Empty if it fits.
std::string Fault(const ConformanceCase& c) {
  std::map<int, int> shared(c.in_place.begin(), c.in_place.end());
  std::vector<kernels::StepTensor> in, out;
  for (const Tensor& tensor : c.in) {
    in.push_back({"in", tensor.dtype(), tensor.shape(), static_cast<int>(in.size())});
  }
  for (const Tensor& tensor : c.out) {
    const auto with = shared.find(static_cast<int>(out.size()));
    const int place = with != shared.end() ? with->second : static_cast<int>(in.size() + out.size());
    out.push_back({"out", tensor.dtype(), tensor.shape(), place});
  }
  return kernels::CheckAlone(c.step, in, out);
}

std::vector<Kernel> AllKernels() {
  std::vector<Kernel> kernels;
  for (int i = 0; i < Kernel_descriptor()->value_count(); ++i) {
    const auto kernel = static_cast<Kernel>(Kernel_descriptor()->value(i)->number());
    if (kernel != KERNEL_UNSPECIFIED && !kernels::IsCollective(kernel)) kernels.push_back(kernel);
  }
  return kernels;
}

class Conformance : public testing::TestWithParam<Kernel> {};

TEST_P(Conformance, IsThatOfTheCpu) {
  const Kernel kernel = GetParam();
  ASSERT_TRUE(HasKernel(kernel)) << "executor/backends/cuda/kernels.def does not have it";
  for (const DType dtype : kDTypes) {
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t seed = static_cast<uint64_t>(kernel) * 1000 + static_cast<uint64_t>(dtype) * 100 + round;
      CaseMaker maker(seed, round, dtype);
      const ConformanceCase c = MakeCase(maker, kernel);
      SCOPED_TRACE(absl::StrCat(DType_Name(dtype), ", round ", round, ", seed ", seed, ":", Shapes(c.in), " ->",
                                Shapes(c.out), "\n", c.step.ShortDebugString()));
      ASSERT_EQ(Fault(c), "") << "no Program could have this step";
      Check(c, dtype);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Conformance, testing::ValuesIn(AllKernels()),
                         [](const auto& info) { return Kernel_Name(info.param); });

}  // namespace
}  // namespace weft::exec::cuda
