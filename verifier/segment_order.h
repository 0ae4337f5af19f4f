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
  // True if the accesses of p and q to the same memory are ordered, p before q. This includes two collectives of one
  // stream (P7).
  bool Ordered(int p, int q) const { return Finished(p, q) || (p < q && parts_[p].stream == parts_[q].stream); }

  // Subsets of `parts`, which ascend: First returns the parts that start first, Last those whose finish is that of all.
  std::vector<int> First(const std::vector<int>& parts) const;
  std::vector<int> Last(const std::vector<int>& parts) const;

 private:
  const std::vector<Part>& parts_;
  int streams_ = 0;
  std::vector<int32_t> before_;  // [part][stream]: last part ended before this one starts.
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_SEGMENT_ORDER_H_
