#include "schedules/pipeline/controllable_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedules/pipeline/params.h"

namespace weft {
namespace {

constexpr int64_t kPeriod = 6;

// What a rank can run in a slot; 0 and 1 are chunks. Each of the first four kinds runs its microbatches in ascending
// order.
enum Choice : int8_t { kForward0, kForward1, kInput1, kInput0, kWeight, kNothing };
constexpr std::array<int, 4> kChunk = {0, 1, 1, 0};

// Slots from a chunk's input gradient to its weight gradient in the repeated blocks. The weight gradients of both
// chunks wait for the slots that the block leaves over, first come, first served. Chunk 1's input gradient comes first
// in a block, so at the beginning only chunk 1 waits.
std::array<int64_t, 2> WeightDelays(const BuildingBlock& block) {
  const int64_t first = block.input[1];
  const int64_t other = kPeriod + (block.input[0] - first) % kPeriod;
  std::array<bool, kPeriod> taken = {};
  for (int chunk : {0, 1}) {
    taken[block.forward[chunk] % kPeriod] = true;
    taken[block.input[chunk] % kPeriod] = true;
  }
  std::array<int64_t, 2> delays = {};
  // (chunk, slot) of the weight gradients that wait. Slots count from `first`.
  std::vector<std::pair<int, int64_t>> waiting;
  for (int64_t slot = 0; slot < 4 * kPeriod; ++slot) {
    if (!waiting.empty() && !taken[(first + slot) % kPeriod]) {
      delays[waiting.front().first] = slot - waiting.front().second;
      waiting.erase(waiting.begin());
    }
    if (slot % kPeriod == 0) waiting.push_back({1, slot});
    if (slot >= other && (slot - other) % kPeriod == 0) waiting.push_back({0, slot});
  }
  return delays;
}

struct Rank {
  std::array<int, 4> next = {};
  // The slot that the repeated blocks give to the next microbatch of each kind.
  std::array<int64_t, 4> place = {};
  // By chunk: the number of activations that the rank holds now, and the most that it may hold.
  std::array<int, 2> held = {};
  std::array<int, 2> limit = {};
  std::array<int64_t, 2> weight_delay = {};
  // Index in the rank's list of the first input gradient that has no weight gradient yet; the list's size if none.
  size_t weightless = 0;
};

class Builder {
 public:
  Builder(const RepeatedBlocks& blocks, int microbatches)
      : blocks_(blocks),
        microbatches_(microbatches),
        stages_(2 * static_cast<int>(blocks.ranks.size())),
        ranks_(blocks.ranks.size()),
        forwards_(stages_),
        inputs_(stages_),
        order_(blocks.ranks.size()) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const BuildingBlock& block = blocks.ranks[r];
      Rank& rank = ranks_[r];
      rank.place = {block.forward[0], block.forward[1], block.input[1], block.input[0]};
      rank.weight_delay = WeightDelays(block);
      for (int chunk : {0, 1}) {
        const int64_t life = block.input[chunk] + rank.weight_delay[chunk] - block.forward[chunk];
        // Chunk 0 never gets the whole limit, or no microbatch could turn around at the last rank.
        rank.limit[chunk] =
            static_cast<int>(std::min<int64_t>(life / kPeriod + 1, blocks.limit - (chunk == 0 ? 1 : 0)));
      }
      order_[r].reserve(size_t{6} * microbatches);
    }
  }

  std::vector<std::vector<Slot>> Run() {
    const int count = static_cast<int>(ranks_.size());
    // A rank can have something new to do only if it or a neighbor did something in the slot before.
    std::vector<int> awake(count), next;
    std::iota(awake.begin(), awake.end(), 0);
    std::vector<int64_t> woken(count, -1);
    std::vector<Choice> choices(count);
    int64_t left = int64_t{6} * microbatches_ * count;
    for (int64_t now = 0; left > 0; ++now) {
      auto wake = [&](int r) {
        if (r < 0 || r >= count || woken[r] == now) return;
        woken[r] = now;
        next.push_back(r);
      };
      // All ranks choose before any runs, because the result of a slot is only available in the next slot.
      for (int r : awake) choices[r] = Choose(r, now);
      for (int r : awake) {
        if (choices[r] == kNothing) {
          // A forward may be ready but too early. Then only time must pass.
          if (Could(r, kForward0) || Could(r, kForward1)) wake(r);
          continue;
        }
        Do(r, choices[r]);
        --left;
        for (int other : {r - 1, r, r + 1}) wake(other);
      }
      awake.swap(next);
      next.clear();
    }
    return std::move(order_);
  }

 private:
  int Stage(int r, int chunk) const { return chunk == 0 ? r : stages_ - 1 - r; }

  // True if the rank could run its next slot of this kind now. Ignores the lead of forwards (TooEarly).
  bool Could(int r, int kind) const {
    const Rank& rank = ranks_[r];
    const int m = rank.next[kind];
    if (m >= microbatches_) return false;
    const int chunk = kChunk[kind], stage = Stage(r, chunk);
    if (kind == kForward0 || kind == kForward1) {
      return (stage == 0 || m < forwards_[stage - 1]) && rank.held[chunk] < rank.limit[chunk] &&
             rank.held[0] + rank.held[1] < blocks_.limit;
    }
    return m < forwards_[stage] && (stage == stages_ - 1 || m < inputs_[stage + 1]);
  }

  bool TooEarly(int r, int kind, int64_t now) const {
    return (kind == kForward0 || kind == kForward1) && ranks_[r].place[kind] - now > blocks_.lead;
  }

  Choice Choose(int r, int64_t now) const {
    const Rank& rank = ranks_[r];
    Choice best = kNothing;
    for (Choice kind : {kForward0, kForward1, kInput1, kInput0}) {
      if (best != kNothing && rank.place[kind] >= rank.place[best]) continue;
      if (Could(r, kind) && !TooEarly(r, kind, now)) best = kind;
    }
    if (rank.weightless == order_[r].size()) return best;
    if (best == kNothing) return kWeight;
    if (!blocks_.punctual_weights || rank.next[kForward0] == microbatches_) return best;
    // A weight gradient whose place comes before the place of `best` goes first if its chunk is at its limit. So it
    // frees memory for a waiting forward, and delays no slot whose place comes earlier.
    const Slot& input = order_[r][rank.weightless];
    const int chunk = input.stage == r ? 0 : 1;
    const int64_t place = blocks_.ranks[r].input[chunk] + kPeriod * input.microbatch + rank.weight_delay[chunk];
    return rank.held[chunk] >= rank.limit[chunk] && place < rank.place[best] ? kWeight : best;
  }

  void Do(int r, Choice choice) {
    Rank& rank = ranks_[r];
    std::vector<Slot>& order = order_[r];
    if (choice == kWeight) {
      Slot weight = order[rank.weightless];
      weight.kind = SlotKind::kBackwardWeight;
      --rank.held[weight.stage == r ? 0 : 1];
      order.push_back(weight);
      do ++rank.weightless;
      while (rank.weightless < order.size() && order[rank.weightless].kind != SlotKind::kBackwardInput);
      return;
    }
    const int chunk = kChunk[choice], stage = Stage(r, chunk), m = rank.next[choice]++;
    rank.place[choice] += kPeriod;
    const bool forward = choice == kForward0 || choice == kForward1;
    if (forward) {
      ++rank.held[chunk];
      ++forwards_[stage];
      if (rank.weightless == order.size()) ++rank.weightless;
    } else {
      ++inputs_[stage];
    }
    order.push_back({.kind = forward ? SlotKind::kForward : SlotKind::kBackwardInput, .stage = stage, .microbatch = m});
  }

  const RepeatedBlocks& blocks_;
  const int microbatches_;
  const int stages_;
  std::vector<Rank> ranks_;
  // The number of microbatches that each stage has done before the present slot.
  std::vector<int> forwards_;
  std::vector<int> inputs_;
  std::vector<std::vector<Slot>> order_;
};

}  // namespace

PipelineSchedule VSchedule(const RepeatedBlocks& blocks, int microbatches) {
  const int ranks = static_cast<int>(blocks.ranks.size());
  return {.stages = 2 * ranks,
          .lanes = 1,
          .placement = SnakePlacement(ranks, 2 * ranks),
          .order = Builder(blocks, microbatches).Run()};
}

ClosedForm ClosedFormOfBlocks(const ScheduleParams& params, std::optional<int64_t> bubble) {
  ClosedForm form;
  const SlotCosts& costs = params.costs;
  if (bubble && costs.weight == costs.forward && costs.backward - costs.weight == costs.forward) {
    const __int128 slots = int64_t{6} * params.microbatches + *bubble;
    form.makespan = form.span = RatioIfItFits(slots * costs.forward, 2);
  }
  return form;
}

}  // namespace weft
