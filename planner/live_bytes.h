// Follows the buffers that live on the device through the actions of a template, in list order. No arena is lower.
#ifndef WEFT_PLANNER_LIVE_BYTES_H_
#define WEFT_PLANNER_LIVE_BYTES_H_

#include <array>
#include <cstdint>

#include "proto/program.pb.h"

namespace weft::planner {

// Bytes by BufferClass.
using BytesByClass = std::array<double, BufferClass_ARRAYSIZE>;

// The bytes that live at the fullest moment of the microbatches' actions, and at that of the end of the step. Both
// include persistent buffers.
struct FullestMoments {
  BytesByClass microbatches = {};
  BytesByClass end = {};
};
FullestMoments FullestMomentsOf(const Template& t);

// Bytes that live at the fullest moment of all.
int64_t FullestMoment(const Template& t);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_LIVE_BYTES_H_
