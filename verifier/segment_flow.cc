#include "verifier/segment_flow.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/traits.h"
#include "verifier/index.h"

namespace weft::verify {
namespace {

class Walk {
 public:
  Walk(const Program& program, const Segment& segment, int width, SegmentFlow* flow)
      : program_(program), segment_(segment), width_(width), flow_(*flow) {}

  void Visit(const Step& step) {
    rows_ = kernels::ReadsMicrobatch(step) ? RowsOfMicrobatch(program_, step) : RowsOfMicrobatch(program_);
    std::vector<std::pair<int, std::vector<Share>>> results;
    for (int output : step.outputs()) {
      const int blocks = Blocks(segment_.values(output));
      std::vector<Share> shares;
      for (int block = 0; block < blocks; ++block) {
        Share share;
        bool mixed = false;
        for (int input : step.inputs()) Join(input, block, blocks, &share, &mixed);
        if (step.accumulate()) Join(output, block, blocks, &share, &mixed);
        if (kernels::ReadsMicrobatch(step)) {
          const int64_t offset = step.attributes().microbatch_offset() + block;
          Combine({width_ == 0 ? step.attributes().of_backward() : static_cast<int>(offset)}, &share, &mixed);
        }
        if (mixed && width_ == 0 && flow_.fault.empty()) {
          flow_.fault =
              absl::StrCat("step '", step.name(), "' mixes values of the forward with values of the backward");
        }
        shares.push_back(mixed ? Share{} : share);
      }
      results.emplace_back(output, std::move(shares));
    }
    for (const auto& [output, shares] : results) {
      for (int block = 0; block < static_cast<int>(shares.size()); ++block) {
        const auto [begin, end] = Bytes(segment_.values(output), block, static_cast<int>(shares.size()));
        flow_.operands[segment_.values(output).operand()].Set(begin, end, shares[block]);
      }
    }
  }

 private:
  // Number of microbatches in the value, whose rows follow one another; 1 if the number is unknown.
  int Blocks(const Value& value) const {
    if (width_ < 2 || value.shape_size() == 0 || rows_ < 1 || value.shape(0) % rows_ != 0) return 1;
    const int64_t blocks = value.shape(0) / rows_;
    return blocks <= width_ ? static_cast<int>(blocks) : 1;
  }

  static std::pair<int64_t, int64_t> Bytes(const Value& value, int block, int blocks) {
    const int64_t bytes = (EndOf(value) - value.offset()) / blocks;
    return {value.offset() + block * bytes, value.offset() + (block + 1) * bytes};
  }

  static void Combine(Share one, Share* share, bool* mixed) {
    if (one.index < 0) return;
    *mixed = *mixed || (share->index >= 0 && share->index != one.index);
    *share = one;
  }

  // Adds the shares of the bytes of value `v` that a block of the result depends on: the same block if the value has
  // `blocks` blocks, else the whole value.
  void Join(int v, int block, int blocks, Share* share, bool* mixed) const {
    const Value& value = segment_.values(v);
    const bool same = Blocks(value) == blocks;
    const auto [begin, end] = Bytes(value, same ? block : 0, same ? blocks : 1);
    flow_.operands[value.operand()].ForEach(begin, end, [&](int64_t, int64_t, Share one) {
      Combine(one, share, mixed);
      return true;
    });
  }

  const Program& program_;
  const Segment& segment_;
  const int width_;
  // Rows of one microbatch in the current step.
  int64_t rows_ = 0;
  SegmentFlow& flow_;
};

}  // namespace

SegmentFlow FollowSegment(const Program& program, const Segment& segment, int width,
                          std::vector<RangeMap<Share>> operands) {
  SegmentFlow flow;
  flow.operands = std::move(operands);
  Walk walk(program, segment, width, &flow);
  for (const Step& step : segment.steps()) walk.Visit(step);
  return flow;
}

}  // namespace weft::verify
