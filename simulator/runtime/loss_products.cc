#include "simulator/runtime/loss_products.h"

#include "simulator/runtime/rewrites.h"

namespace weft::sim {

std::set<std::pair<int, int>> LossProducts(const Program& program) {
  std::set<std::pair<int, int>> products;
  for (int s = 0; s < program.segments_size(); ++s) {
    const Segment& segment = program.segments(s);
    // Gradients of logits that the steps so far have made.
    std::set<ValueRange> gradients;
    for (int i = 0; i < segment.steps_size(); ++i) {
      const Step& step = segment.steps(i);
      if (step.kernel() == CROSS_ENTROPY_BACKWARD && step.outputs_size() > 0) {
        gradients.insert(RangeOf(segment, step.outputs(0)));
        continue;
      }
      const bool reads_logits = step.kernel() == CROSS_ENTROPY || step.kernel() == CROSS_ENTROPY_PARTIAL;
      if (reads_logits && step.inputs_size() > 0) {
        // Finds the last step that wrote the logits.
        const ValueRange logits = RangeOf(segment, step.inputs(0));
        for (int before = i - 1; before >= 0; --before) {
          const Step& product = segment.steps(before);
          if (product.outputs_size() == 0 || RangeOf(segment, product.outputs(0)) != logits) continue;
          if (product.kernel() == MATMUL) products.emplace(s, before);
          break;
        }
      }
      if (gradients.empty()) continue;
      bool reads_gradient = false;
      for (const int32_t input : step.inputs()) reads_gradient |= gradients.count(RangeOf(segment, input)) > 0;
      if (step.kernel() == MATMUL && reads_gradient) products.emplace(s, i);
      // After any other step that writes to this place, the place holds another tensor.
      for (const int32_t output : step.outputs()) gradients.erase(RangeOf(segment, output));
    }
  }
  return products;
}

}  // namespace weft::sim
