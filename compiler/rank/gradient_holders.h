// Which rank holds which gradient, and how those of one tensor come together (rule P9), as the signatures of the ranks'
// step segments say (compiler/segments/rank_content.h decided it):
//   - a gradient of one holder is summed over `data`; of several holders (replicas of its stage), over them and `data`;
//   - a tensor whose uses are on several ranks, one each: then once more over those ranks, which adds the uses;
//   - a tensor whose ranks hold every use: each use over all those ranks and `data` instead, and grad_norm adds.
#ifndef WEFT_COMPILER_RANK_GRADIENT_HOLDERS_H_
#define WEFT_COMPILER_RANK_GRADIENT_HOLDERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/rank_ops.h"

namespace weft {

// (tensor, use)
using GradientUse = std::pair<int, int>;

// A tensor whose uses are on several ranks.
struct SharedGradient {
  // In model order.
  std::vector<GradientUse> uses;
  // Pipe ranks, ascending.
  std::vector<int64_t> ranks;
  // One use on each rank, and not every use on every rank.
  bool over_ranks = false;
};

struct GradientHolders {
  explicit GradientHolders(ir::ProgramOp program);

  // The buffer that backwards of `stage` add to.
  ir::OperandAttr Gradient(int stage, const GradientUse& use) const;

  // Pipe ranks, ascending.
  std::vector<int64_t> HoldersOf(const GradientUse& use) const;

  // What backwards add to: accumulators under exact accumulation.
  ir::Role held_role = ir::Role::Grad;
  // ZeRO stage 1: the ranks' parts of it, into which it is scattered at the end of the step. Empty if it is not.
  std::map<GradientUse, ir::OperandAttr> parts;
  // Pipe ranks.
  std::map<GradientUse, std::set<int64_t>> holders;
  std::map<GradientUse, int> stage_of;
  // In the order in which the stage's backward has them.
  std::map<int, std::vector<ir::OperandAttr>> of_stage;
  // By tensor.
  std::map<int, SharedGradient> shared;
  // Uses of tensors of which every rank holds all.
  std::set<GradientUse> every_use;

 private:
  void ReadSignatures(ir::ProgramOp program);
  void SortUses();
};

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_GRADIENT_HOLDERS_H_
