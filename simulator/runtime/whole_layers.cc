// A program as run by frameworks that compute all of a recomputed layer again.
//
// A backward of weft recomputes only what it reads. The last product of a layer, the sum behind it and the residual
// addition are read only by the next layer, whose input is kept. torch.utils.checkpoint runs the layer's forward to its
// end, and so do the checkpoint functions of Megatron-LM and DeepSpeed. (Checkpoints that are not reentrant stop early
// since PyTorch 2.1.) With tensor parallelism, this means two sums per layer instead of one, and one more product,
// which is a third of the work of a GPT's layer. Here the other steps of such a layer follow the recomputed steps. The
// result is for costing only.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "proto/edit/program_edit.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

// Returns "model.layers.3" for "model.layers.3.mlp.down_proj"; empty if the name has no number.
absl::string_view LayerOf(absl::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const absl::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit)) return name.substr(0, end);
    begin = end + 1;
  }
  return {};
}

bool GathersWeights(const Step& step) {
  return step.kernel() == GROUP_ALL_GATHER && step.collective().purpose() == GATHER_WEIGHTS;
}

// Copies steps of a forward into the backward of the same stage.
class Copier {
 public:
  Copier(const Segment& forward, Segment* backward) : forward_(forward), backward_(*backward) {
    for (int i = 0; i < backward_.steps_size(); ++i) {
      const auto found = again_.find(backward_.steps(i).name());
      if (found == again_.end()) again_[backward_.steps(i).name()] = i;
    }
  }

  void Copy() {
    int end = 0;
    for (int begin = 0; begin < forward_.steps_size(); begin = end) {
      end = begin + 1;
      if (GathersWeights(forward_.steps(begin))) continue;
      const absl::string_view layer = LayerOf(forward_.steps(begin).name());
      // Gathers for the next layer may be among the steps of this layer.
      while (end < forward_.steps_size() &&
             (GathersWeights(forward_.steps(end)) || LayerOf(forward_.steps(end).name()) == layer)) {
        ++end;
      }
      if (!layer.empty()) Complete(begin, end);
    }
    if (!joining_.empty()) Join(joining_, &backward_);
  }

 private:
  // Returns the index in the backward of a step of the forward; -1 if the backward does not recompute the step.
  int Again(int step) const {
    const auto found = again_.find(forward_.steps(step).name());
    return found == again_.end() || backward_.steps(found->second).kernel() != forward_.steps(step).kernel()
               ? -1
               : found->second;
  }

  // Completes the layer of steps [begin, end) in the backward.
  void Complete(int begin, int end) {
    int last = -1, rest = begin;
    for (; rest < end && (Again(rest) >= 0 || GathersWeights(forward_.steps(rest))); ++rest) {
      last = std::max(last, Again(rest));
    }
    if (last < 0) return;
    for (int i = rest; i < end; ++i) {
      if (!GathersWeights(forward_.steps(i)) && Again(i) >= 0) return;
    }
    std::map<int, int> copies;
    for (int i = rest; i < end; ++i) {
      if (GathersWeights(forward_.steps(i))) continue;
      JoiningStep copy{.step = forward_.steps(i), .after_step = last, .after = {}, .awaited_by = {}};
      copy.step.clear_deps();
      for (const int dep : forward_.steps(i).deps()) {
        if (const auto found = copies.find(dep); found != copies.end()) {
          copy.after.push_back(found->second);
        } else if (Again(dep) >= 0) {
          copy.step.add_deps(Again(dep));
          // A step that the copy waits for may come after the recomputed steps, for example a gather that is not
          // prefetched.
          last = std::max(last, Again(dep));
        }
      }
      copy.after_step = last;
      for (int32_t& value : *copy.step.mutable_inputs()) value = CopyOfValue(value);
      for (int32_t& value : *copy.step.mutable_outputs()) value = CopyOfValue(value);
      copies[i] = static_cast<int>(joining_.size());
      joining_.push_back(std::move(copy));
    }
  }

  // Only the type and the shape of the copied value count.
  int32_t CopyOfValue(int32_t value) {
    const auto [found, is_new] = values_.try_emplace(value, backward_.values_size());
    if (is_new) {
      Value& copy = *backward_.add_values();
      copy = forward_.values(value);
      copy.set_operand(0);
      copy.set_offset(0);
    }
    return found->second;
  }

  const Segment& forward_;
  Segment& backward_;
  // Index of the first step of each name in the backward.
  absl::flat_hash_map<std::string, int> again_;
  absl::flat_hash_map<int32_t, int32_t> values_;
  std::vector<JoiningStep> joining_;
};

}  // namespace

void RecomputeWholeLayers(Program* program) {
  // All backwards of a stage run one segment, whatever their lane and rank. All forwards of a stage do so too.
  std::set<int32_t> done;
  for (const Template& t : program->templates()) {
    std::map<int32_t, int32_t> forward_of_stage;
    for (const Action& action : t.body()) {
      if (action.kind() == FORWARD) forward_of_stage.try_emplace(action.stage(), action.segment());
    }
    for (const Action& action : t.body()) {
      if (action.kind() != BACKWARD && action.kind() != BACKWARD_INPUT) continue;
      const auto forward = forward_of_stage.find(action.stage());
      if (forward == forward_of_stage.end() || !done.insert(action.segment()).second) continue;
      Copier(program->segments(forward->second), program->mutable_segments(action.segment())).Copy();
    }
  }
}

}  // namespace weft::sim
