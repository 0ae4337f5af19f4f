// What the steps of a segment wait for (rule P2), where some of them are collectives that run beside the others.
//
//   compute:  A      B   C        `g` stands between A and B in the list: it waits for A.
//   z:            g               It writes what C reads: C waits for g, B does not; were it blocking, B would.
//
// A collective waits for the compute step before it in the list, so its place there says when it is issued. Besides:
//   - any step waits for the blocking collectives between the compute step before it and itself;
//   - steps of different streams, and collectives of one stream, that touch the same bytes, at least one of them to
//     write, run one after the other in list order.
// What follows from the order of streams and from other waits is left out.
//
// Time: O(steps * collectives that nothing has waited for yet).
#ifndef WEFT_COMPILER_SEGMENTS_STEP_ORDER_H_
#define WEFT_COMPILER_SEGMENTS_STEP_ORDER_H_

#include <cstdint>
#include <vector>

namespace weft {

// Bytes [begin, end) of a space, whatever that is to the caller.
struct StepAccess {
  int space = 0;
  int64_t begin = 0;
  int64_t end = 0;
  bool writes = false;
};

struct OrderedStep {
  // 0 = compute, others = a communicator each.
  int stream = 0;
  // Of collectives.
  bool blocking = false;
  std::vector<StepAccess> accesses;
};

class StepOrder {
 public:
  explicit StepOrder(const std::vector<OrderedStep>& steps);

  // Steps that `step` names in Step.deps, ascending.
  const std::vector<int>& deps(int step) const { return deps_[step]; }
  // The first compute step that starts after the finish of the collective `step`, for any timing; the number of steps
  // if none does.
  int WaitedForBy(int step) const { return waited_for_by_[step]; }

 private:
  std::vector<std::vector<int>> deps_;
  std::vector<int> waited_for_by_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_STEP_ORDER_H_
