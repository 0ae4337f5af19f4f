// Rates of flows over shared links: max-min fair, in whole bytes per second (rule P12).
//
// Example: links of 12, 10 and 3 bytes/s; flow a on links 0 and 1, b on 1 and 2, c on 0 with two messages.
//   levels 12 / 3, 10 / 2, 3 / 1: link 2 gives b 3; then 12 / 3, 7 / 1: link 0 gives a and c 4.
//
// All links at the least level give it at once, so rates do not depend on how links and flows are numbered, and flows
// that are alike have one rate (fold.h).
//
// Only flows that a change can reach are solved again: flows that are connected to it by shared links. All other flows
// would get the rate that they have, because a link's level depends on its own flows only, and levels of links without
// a common flow do not affect each other. Source: Bertsekas, Gallager, "Data Networks", 2nd ed., 1992, sec. 6.5.2
// (progressive filling).
#ifndef WEFT_SIMULATOR_ENGINE_MAX_MIN_H_
#define WEFT_SIMULATOR_ENGINE_MAX_MIN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace weft::sim {

class MaxMin {
 public:
  // Pairs of a link and the number of the flow's messages that use it. Each link occurs once, loads are > 0, and there
  // is at least one pair.
  using Loads = absl::Span<const std::pair<int32_t, int32_t>>;

  // `capacities` are the bytes per second of every link, > 0.
  explicit MaxMin(absl::Span<const int64_t> capacities);

  // Begin starts a flow and returns its number; `loads` must stay valid until the flow's end. After End the number is
  // free again. Both take effect with the next Solve; until then rates stay as they are.
  int32_t Begin(Loads loads);
  void End(int32_t flow);

  // True if flows began or ended since the last Solve.
  bool changed() const { return !dirty_.empty(); }

  // Returns the flows whose rate has changed, including those that began. Valid until the next call.
  absl::Span<const int32_t> Solve();

  // Rate of a flow; 0 before its first Solve.
  int64_t rate(int32_t flow) const { return flows_[flow].rate; }

 private:
  struct Use {
    int32_t flow = 0;
    int32_t load = 0;
    // Index in the flow's loads.
    int32_t index = 0;
  };

  struct LinkState {
    int64_t capacity = 0;
    std::vector<Use> uses;
    bool dirty = false;
    // Number of the last solve that reached the link. `free` and `load` are values of that solve.
    int64_t solve = 0;
    int64_t free = 0;
    int64_t load = 0;
  };

  struct FlowState {
    Loads loads;
    // For each element of the flow's loads, the index of that use in LinkState::uses of the link.
    std::vector<int32_t> positions;
    int64_t rate = 0;
    // Number of the last solve that reached the flow, and whether that solve has given the flow its rate.
    int64_t solve = 0;
    bool settled = true;
  };

  void MarkDirty(int32_t link);

  // Adds to reached_links_ and reached_flows_ the links and flows that `link` reaches.
  void Reach(int32_t link);
  void SolveReached();
  void SolveAlone(int32_t flow);
  void SetRate(int32_t flow, int64_t rate);

  std::vector<LinkState> links_;
  std::vector<FlowState> flows_;
  std::vector<int32_t> unused_flows_;
  std::vector<int32_t> dirty_;
  int64_t solve_ = 0;
  // Buffers of one solve, kept to reuse their memory.
  std::vector<int32_t> reached_links_;
  std::vector<int32_t> reached_flows_;
  std::vector<std::pair<int64_t, int32_t>> levels_;
  std::vector<int32_t> bottlenecks_;
  std::vector<int32_t> changed_flows_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_MAX_MIN_H_
