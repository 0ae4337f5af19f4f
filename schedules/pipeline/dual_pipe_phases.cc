#include "schedules/pipeline/dual_pipe_phases.h"

#include <cstddef>
#include <utility>

namespace weft {
namespace {

class Walker {
 public:
  explicit Walker(const DualPipeRank& rank) : rank_(rank) { order_.reserve(size_t{6} * rank.microbatches); }

  std::vector<Slot> Run() {
    const int depth = rank_.depth, place = rank_.place, above = depth - place - 1;
    for (int k = 0; k < 2 * above; ++k) Forward(0);
    for (int k = 0; k < place + 1; ++k) {
      Forward(0);
      Forward(1);
    }
    for (int k = 0; k < above; ++k) {
      Input(1);
      OldestWeight();
      Forward(1);
    }
    for (int k = 0; k < rank_.microbatches - 2 * depth + place + 1; ++k) {
      if (k == 0 && above == 0) {
        Forward(0);
        Backward(1);
      } else {
        Pair(0, 1);
      }
      Pair(1, 0);
    }
    for (int k = 0; k < above; ++k) {
      Backward(1);
      Pair(1, 0);
    }
    // Phase 6 has 2 (place + 1) backwards, in turns of two. The last place + 1 of them are in halves; the first of
    // these may be the second backward of a turn.
    for (int k = 0; k < 2 * (place + 1); ++k) {
      const int direction = k % 2 == 0 ? 1 : 0;
      k < place + 1 ? Backward(direction) : Input(direction);
    }
    for (int k = 0; k < above; ++k) {
      OldestWeight();
      Input(0);
    }
    while (weightless_ < inputs_.size()) OldestWeight();
    return std::move(order_);
  }

 private:
  void Add(SlotKind kind, int direction, int index, bool paired = false) {
    const Direction& d = rank_.directions[direction];
    order_.push_back({.kind = kind,
                      .lane = static_cast<int16_t>(d.lane),
                      .stage = d.stage,
                      .microbatch = d.first_microbatch + index,
                      .paired = paired});
  }

  void Forward(int direction, bool paired = false) {
    Add(SlotKind::kForward, direction, forwards_[direction]++, paired);
  }
  void Backward(int direction) { Add(SlotKind::kBackward, direction, backwards_[direction]++); }
  void Pair(int forward, int backward) {
    Forward(forward, true);
    Backward(backward);
  }
  void Input(int direction) {
    inputs_.push_back({direction, backwards_[direction]});
    Add(SlotKind::kBackwardInput, direction, backwards_[direction]++);
  }
  void OldestWeight() {
    const auto& [direction, index] = inputs_[weightless_++];
    Add(SlotKind::kBackwardWeight, direction, index);
  }

  const DualPipeRank& rank_;
  std::array<int, 2> forwards_ = {};
  std::array<int, 2> backwards_ = {};
  // The direction and index of each input gradient. Those from index `weightless_` on have no weight gradient yet.
  std::vector<std::pair<int, int>> inputs_;
  size_t weightless_ = 0;
  std::vector<Slot> order_;
};

}  // namespace

std::vector<Slot> DualPipeList(const DualPipeRank& rank) { return Walker(rank).Run(); }

}  // namespace weft
