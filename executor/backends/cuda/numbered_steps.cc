#include "executor/backends/cuda/numbered_steps.h"

#include <list>

#include "executor/backends/cuda/conformance/machine.h"
#include "executor/backends/cuda/conformance/placed_tensors.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;

// Returns the steps on `tensors`, which have been placed. The steps refer to views that are kept in `views`.
std::vector<StepOfRun> StepsOn(const std::vector<NumberedStep>& steps, std::vector<Tensor>& tensors,
                               PlacedTensors& placed, std::list<std::vector<TensorView>>& views) {
  std::vector<TensorView> all;
  for (Tensor& tensor : tensors) {
    const auto view = placed.Place(tensor);
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return {};
    all.push_back(*view);
  }
  std::vector<StepOfRun> run;
  for (const NumberedStep& step : steps) {
    std::vector<TensorView>&in = views.emplace_back(), &out = views.emplace_back();
    for (const int i : step.in) in.push_back(all[i]);
    for (const int i : step.out) out.push_back(all[i]);
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
  std::list<std::vector<TensorView>> views;
  PlacedTensors placed;
  const auto prepared = TheMachine().backend->PrepareRun(StepsOn(steps, tensors, placed, views));
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  return prepared.ok() && *prepared != nullptr;
}

std::vector<std::vector<unsigned char>> TensorsAfter(const std::vector<NumberedStep>& steps,
                                                     std::vector<Tensor> tensors, bool as_run) {
  Backend& backend = *TheMachine().backend;
  StepContext context;
  context.stream = TheStream();
  std::list<std::vector<TensorView>> views;
  PlacedTensors placed;
  const std::vector<StepOfRun> run = StepsOn(steps, tensors, placed, views);
  if (as_run) {
    const auto prepared = backend.PrepareRun(run);
    EXPECT_TRUE(prepared.ok() && *prepared != nullptr) << prepared.status();
    if (!prepared.ok() || *prepared == nullptr) return {};
    const absl::Status status = (*prepared)->Run(context);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(placed.Fetch().ok());
  } else {
    for (const StepOfRun& step : run) {
      const absl::Status status = backend.Run(*step.step, step.inputs, step.outputs, context);
      EXPECT_TRUE(status.ok()) << status;
    }
    EXPECT_TRUE(placed.Fetch().ok());
  }
  std::vector<std::vector<unsigned char>> bytes;
  for (const Tensor& tensor : tensors) bytes.push_back(tensor.bytes());
  return bytes;
}

void ExpectSameBehind(const std::vector<NumberedStep>& steps, const std::vector<Tensor>& tensors) {
  EXPECT_TRUE(TensorsAfter(steps, tensors, false) == TensorsAfter(steps, tensors, true));
}

}  // namespace weft::exec::cuda
