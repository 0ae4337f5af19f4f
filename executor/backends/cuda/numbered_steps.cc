#include "executor/backends/cuda/numbered_steps.h"

#include <list>
#include <memory>

#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "executor/device.h"
#include "gtest/gtest.h"

namespace weft::cuda {
namespace {

using cpu::Tensor;

// On `tensors`; the views lie in `views`.
std::vector<StepOfRun> StepsOn(const std::vector<NumberedStep>& steps, std::vector<Tensor>& tensors,
                               std::list<std::vector<TensorView>>& views) {
  std::vector<StepOfRun> run;
  for (const NumberedStep& step : steps) {
    std::vector<TensorView>&in = views.emplace_back(), &out = views.emplace_back();
    for (const int i : step.in) in.push_back(tensors[i].view());
    for (const int i : step.out) out.push_back(tensors[i].view());
    run.push_back({&step.step, in, out});
  }
  return run;
}

}  // namespace

Tensor Matrix(DType dtype, int64_t rows, int64_t columns, int64_t seed) {
  Tensor tensor(dtype, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) tensor.Set(i, static_cast<double>((i * 7919 + seed * 131) % 1999) / 999);
  return tensor;
}

bool IsRun(const std::vector<NumberedStep>& steps, std::vector<Tensor> tensors) {
  const std::unique_ptr<ComputeDevice> device = MakeHostDevice();
  auto backend = MakeBackend(device.get(), EmulatedLibraries(), {});
  EXPECT_TRUE(backend.ok()) << backend.status();
  if (!backend.ok()) return false;
  std::list<std::vector<TensorView>> views;
  const auto prepared = (*backend)->PrepareRun(StepsOn(steps, tensors, views));
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  return prepared.ok() && *prepared != nullptr;
}

std::vector<std::vector<unsigned char>> Behind(const std::vector<NumberedStep>& steps, std::vector<Tensor> tensors,
                                               bool as_run) {
  const std::unique_ptr<ComputeDevice> device = MakeHostDevice();
  StepContext context;
  context.stream = device->NewStream(ComputeDevice::Priority::kNormal).value();
  auto backend = MakeBackend(device.get(), EmulatedLibraries(), {});
  EXPECT_TRUE(backend.ok()) << backend.status();
  if (!backend.ok()) return {};
  std::list<std::vector<TensorView>> views;
  const std::vector<StepOfRun> run = StepsOn(steps, tensors, views);
  if (as_run) {
    const auto prepared = (*backend)->PrepareRun(run);
    EXPECT_TRUE(prepared.ok() && *prepared != nullptr) << prepared.status();
    if (!prepared.ok() || *prepared == nullptr) return {};
    EXPECT_TRUE((*prepared)->Run(context).ok());
  } else {
    for (const StepOfRun& step : run) EXPECT_TRUE((*backend)->Run(*step.step, step.inputs, step.outputs, context).ok());
  }
  std::vector<std::vector<unsigned char>> bytes;
  for (const Tensor& tensor : tensors) bytes.push_back(tensor.bytes());
  return bytes;
}

void ExpectSameBehind(const std::vector<NumberedStep>& steps, const std::vector<Tensor>& tensors) {
  EXPECT_TRUE(Behind(steps, tensors, false) == Behind(steps, tensors, true));
}

}  // namespace weft::cuda
