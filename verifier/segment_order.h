// Finds which steps of one run of a segment are ordered, for any timing (P2, P4). Internal to the verifier.
#ifndef WEFT_VERIFIER_SEGMENT_ORDER_H_
#define WEFT_VERIFIER_SEGMENT_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "verifier/index.h"

namespace weft::verify {

// Fills in the parts, the communicators, and the part of each step. Returns false if there are too many (P13.limits).
bool MakeParts(const Program& program, const Segment& segment, SegmentUse* use, std::vector<int>* part_of_step);

class SegmentOrder {
 public:
  explicit SegmentOrder(const SegmentUse& use);

  // True if part p has ended (P4) before part q starts; p < q.
  bool Ended(int p, int q) const { return before_[int64_t{q} * streams_ + parts_[p].stream] >= p; }
  // True if part p is finished before part q starts.
  bool Finished(int p, int q) const;
  // True if p's accesses to memory are ordered before q's accesses to the same memory. Two collectives of one stream
  // count as ordered (P7).
  bool Ordered(int p, int q) const { return Finished(p, q) || (p < q && parts_[p].stream == parts_[q].stream); }

  // Both return a subset of `parts`, which must ascend. First: every part starts after one of the subset, or is in it.
  // Last: every part is finished before one of the subset starts, or is in it.
  std::vector<int> First(const std::vector<int>& parts) const;
  std::vector<int> Last(const std::vector<int>& parts) const;

 private:
  const std::vector<Part>& parts_;
  int streams_ = 0;
  std::vector<int32_t> before_;  // [part][stream]: last part ended before this one starts.
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_SEGMENT_ORDER_H_
