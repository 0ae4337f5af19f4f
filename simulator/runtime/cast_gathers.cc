#include "simulator/runtime/cast_gathers.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace weft {
namespace {

// Where a value is, whatever its index: operand and offset.
using Range = std::pair<int32_t, int64_t>;

Range RangeOf(const Segment& segment, int32_t value) {
  return {segment.values(value).operand(), segment.values(value).offset()};
}

bool IsGather(const Step& step) {
  return step.stream() == COLLECTIVE && step.kernel() == GROUP_ALL_GATHER && step.collective().purpose() == TENSOR;
}

}  // namespace

double GatheredBytes(const Runtime& runtime) {
  for (const KernelForm& form : runtime.kernels()) {
    if (form.kernel() == Kernel_Name(GROUP_ALL_GATHER) && form.bytes() > 0) return form.bytes();
  }
  return 1;
}

void ScaleGathers(double bytes, Program* program) {
  for (Segment& segment : *program->mutable_segments()) {
    for (Step& step : *segment.mutable_steps()) {
      if (!IsGather(step)) continue;
      for (auto* values : {step.mutable_inputs(), step.mutable_outputs()}) {
        for (int32_t& value : *values) {
          Value scaled = segment.values(value);
          double elements = bytes;
          for (const int64_t extent : scaled.shape()) elements *= static_cast<double>(extent);
          scaled.clear_shape();
          scaled.add_shape(std::max<int64_t>(1, static_cast<int64_t>(std::min(elements, 0x1p62))));
          value = segment.values_size();
          *segment.add_values() = std::move(scaled);
        }
      }
    }
  }
}

std::set<std::tuple<int, int, int>> GatheredFactors(const Program& program) {
  std::set<std::tuple<int, int, int>> factors;
  for (int s = 0; s < program.segments_size(); ++s) {
    const Segment& segment = program.segments(s);
    std::set<Range> gathered;
    for (int i = 0; i < segment.steps_size(); ++i) {
      const Step& step = segment.steps(i);
      if (step.kernel() == MATMUL) {
        for (int factor = 0; factor < std::min(2, step.inputs_size()); ++factor) {
          if (gathered.count(RangeOf(segment, step.inputs(factor))) > 0) factors.emplace(s, i, factor);
        }
      }
      for (const int32_t output : step.outputs()) {
        // What else is written there is another tensor.
        if (IsGather(step)) {
          gathered.insert(RangeOf(segment, output));
        } else {
          gathered.erase(RangeOf(segment, output));
        }
      }
    }
  }
  return factors;
}

}  // namespace weft
