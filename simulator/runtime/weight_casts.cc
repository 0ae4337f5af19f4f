#include "simulator/runtime/weight_casts.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/edit/program_edit.h"
#include "simulator/runtime/loss_products.h"

namespace weft::sim {
namespace {

// Two products read a weight: one in the forward, and one in the backward for the gradient of the input.
constexpr double kProductsOfAWeight = 2;

bool RunsSegment(const Action& action) { return action.segment() > 0 || action.operands_size() > 0; }

// Returns the operands of each segment that are bound to weights.
std::vector<std::set<int>> WeightOperands(const Program& program) {
  std::vector<std::set<int>> weights(program.segments_size());
  for (const Template& t : program.templates()) {
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        if (!RunsSegment(action)) continue;
        for (int i = 0; i < action.operands_size(); ++i) {
          if (t.buffers(action.operands(i)).role() == PARAM) weights[action.segment()].insert(i);
        }
      }
    }
  }
  return weights;
}

double ElementsOf(const Value& value) {
  double elements = 1;
  for (const int64_t extent : value.shape()) elements *= static_cast<double>(extent);
  return elements;
}

Step CastOf(const Segment& segment, int product, int32_t weight, double bytes) {
  Step cast;
  cast.set_name(absl::StrCat("cast ", segment.values(weight).name()));
  cast.set_kernel(CAST);
  cast.add_inputs(weight);
  cast.mutable_work()->set_dtype(segment.steps(product).work().dtype());
  cast.mutable_work()->set_bytes(WeightCastBytes(segment, cast, bytes));
  // The cast waits for the gather that collects the weight's parts from the replicas.
  for (const int dep : segment.steps(product).deps()) {
    if (segment.steps(dep).collective().purpose() == GATHER_WEIGHTS) cast.add_deps(dep);
  }
  return cast;
}

}  // namespace

// A cast that the compiler made has an output; a cast of CastWeightsOnce has none.
bool IsWeightCast(const Step& step) {
  return step.kernel() == CAST && step.inputs_size() == 1 && step.outputs_size() == 0;
}

int64_t WeightCastBytes(const Segment& segment, const Step& cast, double bytes) {
  const double elements = ElementsOf(segment.values(cast.inputs(0)));
  return static_cast<int64_t>(std::min(kProductsOfAWeight * bytes * elements, 0x1p62));
}

std::set<std::tuple<int, int, int>> KeptWeightFactors(const Program& program, bool casts_at_loss) {
  std::set<std::tuple<int, int, int>> factors;
  if (program.steps_per_repetition() > 0) return factors;
  const std::vector<std::set<int>> weights = WeightOperands(program);
  const std::set<std::pair<int, int>> at_loss = casts_at_loss ? std::set<std::pair<int, int>>() : LossProducts(program);
  for (int s = 0; s < program.segments_size(); ++s) {
    const Segment& segment = program.segments(s);
    for (int i = 0; i < segment.steps_size(); ++i) {
      const Step& step = segment.steps(i);
      if (step.kernel() != MATMUL || at_loss.count({s, i}) > 0) continue;
      for (int factor = 0; factor < std::min(2, step.inputs_size()); ++factor) {
        if (weights[s].count(segment.values(step.inputs(factor)).operand()) > 0) factors.emplace(s, i, factor);
      }
    }
  }
  return factors;
}

void CastWeightsOnce(double bytes, bool casts_at_loss, Program* program) {
  const std::set<std::tuple<int, int, int>> factors = KeptWeightFactors(*program, casts_at_loss);
  for (Template& t : *program->mutable_templates()) {
    // (buffer, offset) of the weights with a cast so far. A buffer may hold several weights at several offsets.
    std::set<std::pair<int32_t, int64_t>> cast;
    for (Action& action : *t.mutable_body()) {
      if (action.kind() != FORWARD && action.kind() != FORWARD_BACKWARD) continue;
      const Segment& segment = program->segments(action.segment());
      std::vector<JoiningStep> joining;
      for (auto it = factors.lower_bound({action.segment(), 0, 0});
           it != factors.end() && std::get<0>(*it) == action.segment(); ++it) {
        const int product = std::get<1>(*it);
        const int32_t weight = segment.steps(product).inputs(std::get<2>(*it));
        const Value& value = segment.values(weight);
        if (!cast.emplace(action.operands(value.operand()), value.offset()).second) continue;
        joining.push_back({.step = CastOf(segment, product, weight, bytes), .after_step = product - 1});
      }
      if (joining.empty()) continue;
      Segment first = segment;
      Join(joining, &first);
      action.set_segment(program->segments_size());
      *program->add_segments() = std::move(first);
    }
  }
}

}  // namespace weft::sim
