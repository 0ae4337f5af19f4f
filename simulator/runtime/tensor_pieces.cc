// A program as run by frameworks that cut products and the collectives beside them into pieces (tensor parallelism).
//
// If a gather has n pieces, the product after the gather starts with the first piece. The other pieces arrive while the
// product runs, and the step after the product waits for them. If a reduce-scatter has n pieces, all pieces except the
// last are sent while the product before the reduce-scatter makes the next piece. So a gather G and a product P take
// G/n + max(P, (n-1)/n G) instead of G + P. All pieces that move beside the product are one message here. Products are
// not cut.
//
// The result is for costing only. Sources: Wang et al., ASPLOS 2023, "Overlap communication with dependent computation
// via decomposition"; NVIDIA Transformer Engine, user buffers (--tp-comm-overlap); PyTorch, asynchronous tensor
// parallelism.
#include <algorithm>
#include <utility>
#include <vector>

#include "proto/edit/program_edit.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

class Cutter {
 public:
  Cutter(int pieces, Segment* segment)
      : pieces_(pieces), segment_(*segment), editor_(segment), cut_(segment->steps_size(), false) {}

  void Cut() {
    int last_compute = -1;
    for (int i = 0; i < segment_.steps_size(); ++i) {
      const Step& step = segment_.steps(i);
      if (step.stream() == COMPUTE) {
        const int scatter = ScatterBehind(i);
        if (scatter >= 0) AddFirstOfScatter(scatter, i, last_compute);
        AddStep(i);
        last_compute = i;
      } else if (IsTensor(step, GROUP_ALL_GATHER) && ProductBehind(i) >= 0) {
        AddGather(i);
      } else if (cut_[i]) {
        AddLastOfScatter(i);
      } else {
        AddStep(i);
      }
    }
    editor_.Finish();
  }

 private:
  static bool IsTensor(const Step& step, Kernel kernel) {
    return step.stream() == COLLECTIVE && step.kernel() == kernel && step.collective().purpose() == TENSOR;
  }

  bool DependsOn(int step, int on) const {
    const auto& deps = segment_.steps(step).deps();
    return std::find(deps.begin(), deps.end(), on) != deps.end();
  }

  bool Reads(int step, int of) const {
    for (const int32_t value : segment_.steps(of).outputs()) {
      const auto& inputs = segment_.steps(step).inputs();
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) return true;
    }
    return false;
  }

  // Returns the reduce-scatter that sends the result of `product`, if no compute step is between them; -1 = none.
  int ScatterBehind(int product) const {
    if (segment_.steps(product).kernel() != MATMUL) return -1;
    for (int i = product + 1; i < segment_.steps_size(); ++i) {
      const Step& step = segment_.steps(i);
      if (step.stream() == COMPUTE) return -1;
      if (IsTensor(step, GROUP_REDUCE_SCATTER) && DependsOn(i, product) && Reads(i, product)) return i;
    }
    return -1;
  }

  // Returns the first compute step that waits for the gather, if it is a product that reads the gather; else -1.
  int ProductBehind(int gather) const {
    for (int i = gather + 1; i < segment_.steps_size(); ++i) {
      if (segment_.steps(i).stream() != COMPUTE || !DependsOn(i, gather)) continue;
      return segment_.steps(i).kernel() == MATMUL && Reads(i, gather) ? i : -1;
    }
    return -1;
  }

  // Replaces each value of the step by its first piece (`numerator` = 1) or by all its other pieces.
  void SetPart(int64_t numerator, Step* step) {
    for (auto* values : {step->mutable_inputs(), step->mutable_outputs()}) {
      for (int32_t& value : *values) {
        Value part = segment_.values(value);
        int64_t elements = 1;
        for (const int64_t extent : part.shape()) elements *= extent;
        part.clear_shape();
        part.add_shape(numerator == 1 ? elements / pieces_ : elements - elements / pieces_);
        value = segment_.values_size();
        *segment_.add_values() = std::move(part);
      }
    }
  }

  void AddStep(int index) {
    Step step = segment_.steps(index);
    // A step after a product that began with a first piece needs all pieces. A step before the product does not.
    if (step.stream() == COMPUTE) {
      std::erase_if(rests_, [&](const Rest& rest) {
        if (index > rest.product) step.add_deps(rest.step);
        return index > rest.product;
      });
    }
    editor_.Append(std::move(step), index);
  }

  void AddFirstOfScatter(int scatter, int product, int before) {
    Step step = segment_.steps(scatter);
    step.set_detached(false);
    SetPart(pieces_ - 1, &step);
    *step.mutable_deps() = segment_.steps(product).deps();
    if (before >= 0 && !DependsOn(product, before)) step.add_deps(before);
    editor_.Append(std::move(step));
    cut_[scatter] = true;
  }

  void AddLastOfScatter(int scatter) {
    Step step = segment_.steps(scatter);
    SetPart(1, &step);
    editor_.Append(std::move(step), scatter);
  }

  // Steps that wait for the gather wait for its first piece.
  void AddGather(int gather) {
    Step first = segment_.steps(gather), rest = first;
    SetPart(1, &first);
    SetPart(pieces_ - 1, &rest);
    editor_.Append(std::move(first), gather);
    rests_.push_back({.step = editor_.Append(std::move(rest)), .product = ProductBehind(gather)});
  }

  const int64_t pieces_;
  Segment& segment_;
  StepEditor editor_;
  // For each step: true if it is a reduce-scatter whose first pieces are sent earlier.
  std::vector<bool> cut_;
  // The other pieces of a gather. The first compute step after the gather's product waits for them.
  struct Rest {
    int step = 0;
    int product = 0;
  };
  std::vector<Rest> rests_;
};

bool HasTensorSteps(const Segment& segment) {
  return std::any_of(segment.steps().begin(), segment.steps().end(), [](const Step& step) {
    return step.stream() == COLLECTIVE && step.collective().purpose() == TENSOR;
  });
}

}  // namespace

void CutTensorCollectives(int pieces, Program* program) {
  if (pieces < 2) return;
  for (Segment& segment : *program->mutable_segments()) {
    if (HasTensorSteps(segment)) Cutter(pieces, &segment).Cut();
  }
}

}  // namespace weft::sim
