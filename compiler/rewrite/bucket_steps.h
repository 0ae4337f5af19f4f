// The steps that process one piece of a tensor in a bucket of offloaded optimizer states: fetch, update, write back.
//
//   fetch, on stream h2d:     host states [first, first + count) -> their places in the bucket's copy on the device
//   step, on stream compute:  the optimizer's kernel on these elements, and, if the segment has a separate step that
//                             sets the gradient to zero, that step on these elements
//   back, on stream d2h:      the places in the bucket's copy -> host states
//
// The copy holds all weights of the bucket first, then all first moments, and so on.
#ifndef WEFT_COMPILER_REWRITE_BUCKET_STEPS_H_
#define WEFT_COMPILER_REWRITE_BUCKET_STEPS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/rewrite/buckets.h"
#include "compiler/rewrite/segment_part.h"
#include "proto/program.pb.h"

namespace weft {

// How a step of an optimizer's segment updates one tensor.
struct TensorUpdate {
  int tensor = 0;
  // Indices of two steps in the optimizer's segment: the update, and the step that sets the gradient to zero (-1 if no
  // separate step does).
  int step = 0, zero = -1;
  int64_t elements = 0;
  // Index in the template's body of the action that sums the gradient last; -1 if there is none.
  int chunk = -1;
  // The tensor's buffers in host memory, in the order of the kernel's in-place outputs.
  std::vector<int> states;
};

class BucketSteps {
 public:
  // `whole` is the optimizer's segment, bound to `operands`. `gathered` is for weights in host memory that a
  // collective gathers: it maps the buffer of the weights to the buffer of their copy on the device. All arguments must
  // outlive this object.
  BucketSteps(const Template& t, const Segment& whole, const std::vector<int>& operands,
              const std::map<int, int>& gathered)
      : t_(t), whole_(whole), operands_(operands), gathered_(gathered) {}

  // Appends the steps for one piece of `bucket`. `device` is the buffer with the bucket's copy on the device.
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
