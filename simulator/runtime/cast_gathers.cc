#include "simulator/runtime/cast_gathers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "simulator/runtime/kernel_form.h"
#include "simulator/runtime/loss_products.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

bool IsGather(const Step& step) {
  return step.stream() == COLLECTIVE && step.kernel() == GROUP_ALL_GATHER && step.collective().purpose() == TENSOR;
}

// Returns the gathers whose result at least one product outside `at_loss` reads. `number` is the segment's number.
std::set<int> GathersOfProducts(const Segment& segment, int number, const std::set<std::pair<int, int>>& at_loss) {
  struct Gathered {
    // The pieces of one gather, which follow each other (tensor_pieces.cc).
    std::vector<int> pieces;
    bool read = false;
  };
  std::set<int> gathers;
  std::map<ValueRange, Gathered> gathered;
  for (int i = 0; i < segment.steps_size(); ++i) {
    const Step& step = segment.steps(i);
    for (const int32_t input : step.inputs()) {
      const auto found = gathered.find(RangeOf(segment, input));
      if (found == gathered.end()) continue;
      found->second.read = true;
      if (step.kernel() != MATMUL || at_loss.count({number, i}) > 0) continue;
      gathers.insert(found->second.pieces.begin(), found->second.pieces.end());
    }
    for (const int32_t output : step.outputs()) {
      Gathered& last = gathered[RangeOf(segment, output)];
      if (last.read || !IsGather(step)) last = {};
      if (IsGather(step)) last.pieces.push_back(i);
    }
  }
  return gathers;
}

// Multiplies by `bytes` the number of elements that the gather moves.
void Scale(double bytes, int gather, Segment* segment) {
  Step& step = *segment->mutable_steps(gather);
  for (auto* values : {step.mutable_inputs(), step.mutable_outputs()}) {
    for (int32_t& value : *values) {
      Value scaled = segment->values(value);
      double elements = bytes;
      for (const int64_t extent : scaled.shape()) elements *= static_cast<double>(extent);
      scaled.clear_shape();
      scaled.add_shape(std::max<int64_t>(1, static_cast<int64_t>(std::min(elements, 0x1p62))));
      value = segment->values_size();
      *segment->add_values() = std::move(scaled);
    }
  }
}

}  // namespace

double GatheredBytes(const Runtime& runtime, int capability) {
  const KernelForm* form = FormOf(runtime, GROUP_ALL_GATHER, capability);
  return form != nullptr && form->bytes() > 0 ? form->bytes() : 1;
}

bool CastsAtLoss(const Runtime& runtime, int capability) {
  const KernelForm* product = FormOf(runtime, MATMUL, capability);
  return product == nullptr || !(product->loss_time() > 0);
}

void ScaleGathers(double bytes, bool casts_at_loss, Program* program) {
  const std::set<std::pair<int, int>> at_loss =
      casts_at_loss ? std::set<std::pair<int, int>>() : LossProducts(*program);
  for (int s = 0; s < program->segments_size(); ++s) {
    Segment& segment = *program->mutable_segments(s);
    for (const int gather : GathersOfProducts(segment, s, at_loss)) Scale(bytes, gather, &segment);
  }
}

std::set<std::tuple<int, int, int>> GatheredFactors(const Program& program) {
  std::set<std::tuple<int, int, int>> factors;
  for (int s = 0; s < program.segments_size(); ++s) {
    const Segment& segment = program.segments(s);
    std::set<ValueRange> gathered;
    for (int i = 0; i < segment.steps_size(); ++i) {
      const Step& step = segment.steps(i);
      if (step.kernel() == MATMUL) {
        for (int factor = 0; factor < std::min(2, step.inputs_size()); ++factor) {
          if (gathered.count(RangeOf(segment, step.inputs(factor))) > 0) factors.emplace(s, i, factor);
        }
      }
      for (const int32_t output : step.outputs()) {
        // A step that writes to this place and is no gather puts another tensor there.
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

}  // namespace weft::sim
