// Finds what the steps of a segment wait for (rule P2) if some of them are collectives that run beside the others.
//
//   compute:  A      B   C        Collective `g` stands between A and B: it waits for A.
//   z:            g               It writes what C reads: C waits for g, B does not. If it were blocking, B would.
//
// A collective waits for the compute step before it in the list, so its position determines when it is issued. Also:
//   - any step waits for the blocking collectives between the compute step before it and itself;
//   - steps of different streams, and collectives of one stream, that touch the same bytes run one after the other in
//     list order if at least one of them writes.
// Waits that follow from the order of streams or from other waits are left out.
//
// Time: O(steps * collectives that nothing has waited for yet).
#ifndef WEFT_COMPILER_SEGMENTS_STEP_ORDER_H_
#define WEFT_COMPILER_SEGMENTS_STEP_ORDER_H_

#include <cstdint>
#include <vector>

namespace weft {

// Bytes [begin, end) of a space; the caller decides what a space is.
struct StepAccess {
  int space = 0;
  int64_t begin = 0;
  int64_t end = 0;
  bool writes = false;
};

struct OrderedStep {
  // 0 = the compute stream. Every other number stands for the stream of a communicator.
  int stream = 0;
  // Only for collectives.
  bool blocking = false;
  std::vector<StepAccess> accesses;
};

class StepOrder {
 public:
  explicit StepOrder(const std::vector<OrderedStep>& steps);

  // The steps that `step` waits for (Step.deps), ascending.
  const std::vector<int>& deps(int step) const { return deps_[step]; }
  // The first compute step that starts after the collective `step` has finished, whatever the timing; the number of
  // steps if there is none.
  int WaitedForBy(int step) const { return waited_for_by_[step]; }

 private:
  std::vector<std::vector<int>> deps_;
  std::vector<int> waited_for_by_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_STEP_ORDER_H_
