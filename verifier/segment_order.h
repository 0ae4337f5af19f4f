// Which steps of one run of a segment are ordered, for any timing (P2, P4). Internal to the verifier.
#ifndef WEFT_VERIFIER_SEGMENT_ORDER_H_
#define WEFT_VERIFIER_SEGMENT_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "verifier/index.h"

namespace weft::verify {

// Parts, communicators and which part each step is in. False if there are too many (P13.limits).
bool MakeParts(const Program& program, const Segment& segment, SegmentUse* use, std::vector<int>* part_of_step);

class SegmentOrder {
 public:
  explicit SegmentOrder(const SegmentUse& use);

  // Part p has ended (P4) before part q starts, p < q.
  bool Ended(int p, int q) const { return before_[int64_t{q} * streams_ + parts_[p].stream] >= p; }
  // Part p is finished before part q starts.
  bool Finished(int p, int q) const;
  // What p did to memory, q sees, and the other way round: also for two collectives of one stream (P7).
  bool Ordered(int p, int q) const { return Finished(p, q) || (p < q && parts_[p].stream == parts_[q].stream); }

  // Of ascending `parts`: those that start first, and those whose finish is that of all.
  std::vector<int> First(const std::vector<int>& parts) const;
  std::vector<int> Last(const std::vector<int>& parts) const;

 private:
  const std::vector<Part>& parts_;
  int streams_ = 0;
  std::vector<int32_t> before_;  // [part][stream]: the last part of the stream that has ended when the part starts.
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_SEGMENT_ORDER_H_
