#include "verifier/room.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/util/units.h"
#include "verifier/completeness.h"

namespace weft::verify {

int64_t ElementsWithRoom(const Program& program, int64_t block, const Cuts& ranges, size_t held) {
  const auto next = ranges.begin() + static_cast<int64_t>(std::min(held, ranges.size()));
  const int64_t own = RangeElements(program, block, Cuts(ranges.begin(), next));
  if (next == ranges.end()) return own;
  // The product is less than `own` + Limits::kRanks, so it cannot overflow.
  return RangeElements(program, own, {*next}) * PartsOf(program, *next);
}

bool MayHaveRoom(const Buffer& buffer) {
  return (buffer.role() == PARAM || buffer.role() == GRAD || buffer.role() == GRAD_ACCUMULATOR) &&
         buffer.bytes() % DTypeBytes(buffer.dtype()) == 0;
}

int64_t BytesWithoutRoom(const Buffer& buffer) {
  if (!BelongsToTensor(buffer.role()) || buffer.dtype() == DTYPE_UNSPECIFIED) return buffer.bytes();
  return std::min(buffer.bytes(), TensorBytes(buffer.dtype(), buffer.shape()).value_or(buffer.bytes()));
}

void CheckRoom(const Program& program, Findings* findings) {
  std::vector<Cuts> finest(program.tensors_size());
  for (const Template& t : program.templates()) {
    for (const Buffer& buffer : t.buffers()) {
      if (!BelongsToTensor(buffer.role())) continue;
      Cuts ranges = RangeCuts(program, buffer.shard());
      if (ranges.size() > finest[buffer.tensor()].size()) finest[buffer.tensor()] = std::move(ranges);
    }
  }
  const bool training = IsTraining(program);
  for (const Template& t : program.templates()) {
    for (int b = 0; b < t.buffers_size() && !findings->full(); ++b) {
      const Buffer& buffer = t.buffers(b);
      if (!BelongsToTensor(buffer.role()) || buffer.bytes() == BytesWithoutRoom(buffer)) continue;
      const int64_t block = PartElements(program, buffer.tensor(), DimensionCuts(program, buffer.shard()), {});
      const Cuts own = RangeCuts(program, buffer.shard());
      const int64_t elements = buffer.bytes() / DTypeBytes(buffer.dtype());
      const int64_t want = ElementsWithRoom(program, block, finest[buffer.tensor()], own.size());
      const int64_t without = RangeElements(program, block, own);
      if (training ? elements == want : elements - without < Limits::kRanks) continue;
      findings->Add("P8.room", "template '", t.name(), "', ", DescribeBuffer(t, b), ": has room for ", elements,
                    " elements of tensor '", program.tensors(buffer.tensor()).name(), "'; the buffer holds ", without,
                    ", and the ranks' parts of these have ", want, " elements together");
    }
  }
}

RoomOfSteps::RoomOfSteps(const Template& t) : t_(t) {
  for (int b = 0; b < t.buffers_size(); ++b) {
    const int64_t begin = BytesWithoutRoom(t.buffers(b));
    if (begin == t.buffers(b).bytes()) continue;
    if (begins_.empty()) begins_.assign(t.buffers_size(), std::numeric_limits<int64_t>::max());
    begins_[b] = begin;
  }
}

std::string RoomOfSteps::Fault(const Action& action, const Segment& segment) {
  if (begins_.empty()) return "";
  // For each operand, the byte at which the spare bytes of its buffer begin.
  std::vector<int64_t> ends(action.operands_size(), std::numeric_limits<int64_t>::max());
  bool any = false;
  for (int o = 0; o < action.operands_size(); ++o) {
    const int b = action.operands(o);
    if (b < 0 || b >= t_.buffers_size()) continue;
    ends[o] = begins_[b];
    any |= ends[o] != std::numeric_limits<int64_t>::max();
  }
  // Most actions that run the same segment have the same limits, so a check that has passed is not repeated.
  if (!any || clean_.contains({action.segment(), ends})) return "";
  for (const Step& step : segment.steps()) {
    for (const auto* list : {&step.inputs(), &step.outputs()}) {
      for (const int v : *list) {
        const Value& value = segment.values(v);
        if (value.operand() >= action.operands_size() || EndOf(value) <= ends[value.operand()]) continue;
        return absl::StrCat("step '", step.name(), "' touches '", value.name(), "' up to byte ", EndOf(value), " of ",
                            DescribeBuffer(t_, action.operands(value.operand())), ", which holds ",
                            ends[value.operand()], "; only collective actions may touch the bytes after it");
      }
    }
  }
  clean_.insert({action.segment(), std::move(ends)});
  return "";
}

}  // namespace weft::verify
