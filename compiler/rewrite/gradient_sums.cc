#include "compiler/rewrite/gradient_sums.h"

#include "proto/edit/program_edit.h"

namespace weft {

GradientSums GradientSumsOf(const Template& t) {
  GradientSums sums;
  for (int b = 0; b < t.buffers_size(); ++b) {
    const BufferRole role = t.buffers(b).role();
    if (role == GRAD || role == GRAD_ACCUMULATOR) sums.tensor_of[b] = t.buffers(b).tensor();
  }
  for (int a = 0; a < t.body_size(); ++a) {
    const Action& action = t.body(a);
    if (!IsCollective(action.kind()) || action.sources_size() != action.destinations_size()) continue;
    for (int i = 0; i < action.sources_size(); ++i) {
      const auto source = sums.tensor_of.find(action.sources(i));
      if (source == sums.tensor_of.end()) continue;
      const int tensor = source->second;
      sums.tensor_of[action.destinations(i)] = tensor;
      sums.last_sum[tensor] = a;
    }
  }
  return sums;
}

}  // namespace weft
