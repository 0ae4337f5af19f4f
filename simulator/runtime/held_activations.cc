#include "simulator/runtime/held_activations.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/util/units.h"

namespace weft::sim {
namespace {

class HeldActivations {
 public:
  HeldActivations(const Program& program, const Template& t, const Runtime& runtime)
      : program_(program), template_(t), frees_between_halves_(runtime.memory().frees_between_halves()) {
    if (runtime.memory().parts_in_place()) FindParts();
    for (const KernelForm& form : runtime.kernels()) {
      Kernel kernel;
      // Forms of one kernel for different devices state the same memory.
      if (form.saved() > 0 && Kernel_Parse(form.kernel(), &kernel)) saved_[kernel] = form.saved();
    }
  }

  bool ChangesAnything() const { return !saved_.empty() || frees_between_halves_ || !in_place_.empty(); }

  HeldPeaks Peaks() {
    std::vector<Life> lives(template_.buffers_size());
    FindWeightHalves(&lives);
    HeldPeaks peaks;
    double planned = 0, held = 0;
    int end = template_.body_size();
    while (end > 0 && !IsOfMicrobatch(template_.body(end - 1).kind())) --end;
    for (int i = 0; i < template_.body_size(); ++i) {
      const Action& action = template_.body(i);
      const auto make = [&](int32_t index, double besides) {
        if (!IsTransient(index) || lives[index].bytes > 0) return;
        Life& life = lives[index];
        life.bytes = static_cast<double>(template_.buffers(index).bytes());
        life.held = in_place_.count(index) > 0 ? 0 : life.bytes + besides;
        planned += life.bytes;
        held += life.held;
      };
      for (int k = 0; k < action.operands_size(); ++k) {
        if (Operates(action, k) && SegmentOf(action).operands(k).access() != READ) {
          make(action.operands(k), AdditionalBytes(action, k));
        }
      }
      for (const int32_t buffer : action.destinations()) make(buffer, 0);
      double& planned_peak = i < end ? peaks.planned_microbatches : peaks.planned_end;
      double& held_peak = i < end ? peaks.held_microbatches : peaks.held_end;
      planned_peak = std::max(planned_peak, planned);
      held_peak = std::max(held_peak, held);
      if (frees_between_halves_ && action.kind() == BACKWARD_INPUT) {
        for (const int32_t buffer : action.operands()) {
          if (!IsSaved(buffer) || !lives[buffer].halved || lives[buffer].bytes == 0) continue;
          held -= lives[buffer].held - lives[buffer].of_weights;
          lives[buffer].held = lives[buffer].of_weights;
        }
      }
      for (const int32_t buffer : action.releases()) {
        if (!IsTransient(buffer)) continue;
        planned -= lives[buffer].bytes;
        held -= lives[buffer].held;
        lives[buffer].bytes = lives[buffer].held = 0;
      }
    }
    return peaks;
  }

 private:
  static bool IsOfMicrobatch(ActionKind kind) {
    return kind == FORWARD || kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT ||
           kind == FORWARD_BACKWARD;
  }

  struct Life {
    // Bytes of the buffer while it lives: `bytes` in the program, `held` under the framework.
    double bytes = 0, held = 0;
    // Bytes that the weight half of the backward reads, if the backward has halves.
    double of_weights = 0;
    bool halved = false;
  };

  bool IsTransient(int32_t index) const {
    if (index < 0 || index >= template_.buffers_size()) return false;
    const Buffer& buffer = template_.buffers(index);
    return !buffer.persistent() && buffer.place() == DEVICE;
  }

  bool IsSaved(int32_t index) const {
    return IsTransient(index) && template_.buffers(index).class_() == SAVED_ACTIVATION;
  }

  const Segment& SegmentOf(const Action& action) const { return program_.segments(action.segment()); }

  // True if operand k of the action is an operand of its segment.
  bool Operates(const Action& action, int k) const {
    return action.segment() >= 0 && action.segment() < program_.segments_size() &&
           k < SegmentOf(action).operands_size();
  }

  // Finds the buffers that replicas scatter sums to, and the buffers that replicas gather from.
  void FindParts() {
    for (const Action& action : template_.body()) {
      const auto& parts = action.kind() == REDUCE_SCATTER ? action.destinations() : action.sources();
      if (action.kind() != REDUCE_SCATTER && action.kind() != ALL_GATHER) continue;
      for (const int32_t buffer : parts) {
        if (IsTransient(buffer)) in_place_.insert(buffer);
      }
    }
  }

  void FindWeightHalves(std::vector<Life>* lives) {
    if (!frees_between_halves_) return;
    for (const Action& action : template_.body()) {
      if (action.kind() != BACKWARD_WEIGHT) continue;
      for (int k = 0; k < action.operands_size(); ++k) {
        if (!Operates(action, k) || !IsSaved(action.operands(k))) continue;
        Life& life = (*lives)[action.operands(k)];
        life.halved = true;
        life.of_weights = BytesRead(action.segment(), k);
      }
    }
  }

  // Returns the bytes of an operand that steps of the segment read.
  double BytesRead(int32_t index, int operand) {
    const auto [found, is_new] = read_.emplace(std::make_pair(index, operand), 0);
    if (!is_new) return found->second;
    const Segment& segment = program_.segments(index);
    std::set<int32_t> values;
    for (const Step& step : segment.steps()) {
      for (const int32_t value : step.inputs()) {
        if (value < 0 || value >= segment.values_size() || segment.values(value).operand() != operand) continue;
        if (values.insert(value).second) found->second += Elements(segment, value) * WidthOf(segment, value);
      }
    }
    return found->second;
  }

  static double Elements(const Segment& segment, int32_t value) {
    return static_cast<double>(ElementCount(segment.values(value).shape()).value_or(0));
  }
  static double WidthOf(const Segment& segment, int32_t value) {
    return static_cast<double>(DTypeBytes(segment.values(value).dtype()));
  }

  // Returns the bytes that the framework keeps in addition to operand k, which the action writes.
  double AdditionalBytes(const Action& action, int k) {
    if (saved_.empty() || !IsSaved(action.operands(k))) return 0;
    const auto [found, is_new] = besides_.emplace(std::make_pair(action.segment(), k), 0);
    if (!is_new) return found->second;
    const Segment& segment = SegmentOf(action);
    for (const Step& step : segment.steps()) {
      const auto form = saved_.find(step.kernel());
      if (form == saved_.end() || step.inputs_size() == 0 || step.outputs_size() == 0) continue;
      const int32_t input = step.inputs(0), output = step.outputs(0);
      if (std::min(input, output) < 0 || std::max(input, output) >= segment.values_size()) continue;
      if (segment.values(output).operand() == k) found->second += form->second * Elements(segment, input);
    }
    return found->second;
  }

  const Program& program_;
  const Template& template_;
  const bool frees_between_halves_;
  std::map<int, double> saved_;
  std::set<int32_t> in_place_;
  std::map<std::pair<int32_t, int>, double> read_, besides_;
};

}  // namespace

HeldPeaks HeldPeaksOf(const Program& program, const Template& t, const Runtime& runtime) {
  HeldActivations held(program, t, runtime);
  return held.ChangesAnything() ? held.Peaks() : HeldPeaks();
}

double HeldBeside(const HeldPeaks& peaks) {
  return std::max(peaks.held_microbatches, peaks.held_end) - std::max(peaks.planned_microbatches, peaks.planned_end);
}

}  // namespace weft::sim
