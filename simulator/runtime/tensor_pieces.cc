#include "simulator/runtime/tensor_pieces.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::sim {
namespace {

class Cutter {
 public:
  Cutter(int pieces, const Segment& segment) : pieces_(pieces), from_(segment), made_(segment) {
    made_.clear_steps();
    const int steps = from_.steps_size();
    begun_.assign(steps, -1);
    first_piece_.assign(steps, -1);
  }

  Segment Cut() {
    int last_compute = -1;
    for (int i = 0; i < from_.steps_size(); ++i) {
      const Step& step = from_.steps(i);
      if (step.stream() == COMPUTE) {
        const int scatter = ScatterBehind(i);
        if (scatter >= 0) AddFirstOfScatter(scatter, i, last_compute);
        AddStep(i);
        last_compute = i;
      } else if (IsTensor(step, GROUP_ALL_GATHER) && ProductBehind(i) >= 0) {
        AddGather(i);
      } else if (first_piece_[i] >= 0) {
        AddLastOfScatter(i);
      } else {
        AddStep(i);
      }
    }
    return std::move(made_);
  }

 private:
  static bool IsTensor(const Step& step, Kernel kernel) {
    return step.stream() == COLLECTIVE && step.kernel() == kernel && step.collective().purpose() == TENSOR;
  }

  bool DependsOn(int step, int on) const {
    const auto& deps = from_.steps(step).deps();
    return std::find(deps.begin(), deps.end(), on) != deps.end();
  }

  bool Reads(int step, int of) const {
    for (const int32_t value : from_.steps(of).outputs()) {
      const auto& inputs = from_.steps(step).inputs();
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) return true;
    }
    return false;
  }

  // Returns the reduce-scatter that sends the result of `product`, if no compute step stands between them; -1 = none.
  int ScatterBehind(int product) const {
    if (from_.steps(product).kernel() != MATMUL) return -1;
    for (int i = product + 1; i < from_.steps_size(); ++i) {
      const Step& step = from_.steps(i);
      if (step.stream() == COMPUTE) return -1;
      if (IsTensor(step, GROUP_REDUCE_SCATTER) && DependsOn(i, product) && Reads(i, product)) return i;
    }
    return -1;
  }

  // Returns the first compute step that waits for the gather, if it is a product that reads the gather; else -1.
  int ProductBehind(int gather) const {
    for (int i = gather + 1; i < from_.steps_size(); ++i) {
      if (from_.steps(i).stream() != COMPUTE || !DependsOn(i, gather)) continue;
      return from_.steps(i).kernel() == MATMUL && Reads(i, gather) ? i : -1;
    }
    return -1;
  }

  // Reduces each value of the step to a part of its elements.
  void SetPart(int64_t numerator, Step* step) {
    for (auto* values : {step->mutable_inputs(), step->mutable_outputs()}) {
      for (int32_t& value : *values) {
        Value part = made_.values(value);
        int64_t elements = 1;
        for (const int64_t extent : part.shape()) elements *= extent;
        part.clear_shape();
        part.add_shape(numerator == 1 ? elements / pieces_ : elements - elements / pieces_);
        value = made_.values_size();
        *made_.add_values() = std::move(part);
      }
    }
  }

  void AddWaits(const Step& stated, Step* step) const {
    step->clear_deps();
    for (const int dep : stated.deps()) step->add_deps(begun_[dep]);
  }

  void AddStep(int index) {
    const Step& stated = from_.steps(index);
    Step* step = made_.add_steps();
    *step = stated;
    AddWaits(stated, step);
    // A step behind a product that began with a first piece needs all pieces. A step before the product does not.
    if (stated.stream() == COMPUTE) {
      std::erase_if(rests_, [&](const Rest& rest) {
        if (index > rest.product) step->add_deps(rest.step);
        return index > rest.product;
      });
    }
    begun_[index] = made_.steps_size() - 1;
  }

  void AddFirstOfScatter(int scatter, int product, int before) {
    Step* step = made_.add_steps();
    *step = from_.steps(scatter);
    step->set_detached(false);
    SetPart(pieces_ - 1, step);
    AddWaits(from_.steps(product), step);
    if (before >= 0 && !DependsOn(product, before)) step->add_deps(begun_[before]);
    first_piece_[scatter] = made_.steps_size() - 1;
  }

  void AddLastOfScatter(int scatter) {
    Step* step = made_.add_steps();
    *step = from_.steps(scatter);
    SetPart(1, step);
    AddWaits(from_.steps(scatter), step);
    begun_[scatter] = made_.steps_size() - 1;
  }

  void AddGather(int gather) {
    const int product = ProductBehind(gather);
    for (const int64_t part : {int64_t{1}, int64_t{pieces_} - 1}) {
      Step* step = made_.add_steps();
      *step = from_.steps(gather);
      SetPart(part, step);
      AddWaits(from_.steps(gather), step);
      if (part == 1) begun_[gather] = made_.steps_size() - 1;
    }
    rests_.push_back({.step = made_.steps_size() - 1, .product = product});
  }

  const int64_t pieces_;
  const Segment& from_;
  Segment made_;
  // By original step: the step that later steps wait for.
  std::vector<int> begun_;
  // By original step: the first pieces of a reduce-scatter; -1 = not cut.
  std::vector<int> first_piece_;
  // The other pieces of a gather. The next compute step behind the gather's product waits for them.
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
    if (!HasTensorSteps(segment)) continue;
    Segment cut = Cutter(pieces, segment).Cut();
    segment = std::move(cut);
  }
}

}  // namespace weft::sim
