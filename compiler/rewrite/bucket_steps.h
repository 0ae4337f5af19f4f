// What a bucket of offloaded optimizer states does for a piece of a tensor: it comes, is updated, and goes back.
//
//   fetch, on h2d:    host states [first, first + count) -> their places in the bucket's copy on the device
//   step, on compute: the optimizer's kernel on these elements; the gradient's are made zero where that is a step
//   back, on d2h:     the places -> host states
//
// In the copy lie all weights of the bucket first, then all first moments, and so on.
#ifndef WEFT_COMPILER_REWRITE_BUCKET_STEPS_H_
#define WEFT_COMPILER_REWRITE_BUCKET_STEPS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/rewrite/buckets.h"
#include "compiler/rewrite/segment_part.h"
#include "proto/program.pb.h"

namespace weft {

// The update of one tensor by a step of an optimizer's segment.
struct TensorUpdate {
  int tensor = 0;
  // Index in the optimizer's segment; of the step that makes the gradient zero, -1 if that is no step of its own.
  int step = 0, zero = -1;
  int64_t elements = 0;
  // Of the list: the last sum of its gradient, -1 if there is none.
  int chunk = -1;
  // Buffers in host memory, in the order of the kernel's in-place outputs.
  std::vector<int> states;
};

class BucketSteps {
 public:
  // `whole` is the optimizer's segment, bound to `operands`; `gathered` has for weights in host memory, where a
  // collective gathers them, their copy on the device. All of them outlive this.
  BucketSteps(const Template& t, const Segment& whole, const std::vector<int>& operands,
              const std::map<int, int>& gathered)
      : t_(t), whole_(whole), operands_(operands), gathered_(gathered) {}

  // Appends the steps of a piece, whose bucket has its copy in the buffer `device`.
  void Add(const Bucket& bucket, const BucketPiece& piece, const TensorUpdate& update, int device, BoundSegment* fetch,
           BoundSegment* step, BoundSegment* back) const;

 private:
  int BufferOf(int value) const { return operands_[whole_.values(value).operand()]; }

  const Template& t_;
  const Segment& whole_;
  const std::vector<int>& operands_;
  const std::map<int, int>& gathered_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_BUCKET_STEPS_H_
