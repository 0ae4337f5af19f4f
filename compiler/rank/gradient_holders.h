// Which rank holds which gradient, and how the gradients of one tensor are summed (rule P9). The signatures of the
// ranks' step segments list the gradients that each rank holds, as compiler/segments/rank_content.h decided.
//   - A gradient with one holder is summed over `data`. A gradient with several holders (its stage has replicas on
//     several pipe ranks) is summed over the holders and `data`.
//   - If each rank holds one use of a tensor, the gradients are summed once more over those ranks, which adds the uses.
//   - If every rank holds every use of a tensor, each use is summed over all those ranks and `data` instead, and
//     grad_norm adds the uses.
#ifndef WEFT_COMPILER_RANK_GRADIENT_HOLDERS_H_
#define WEFT_COMPILER_RANK_GRADIENT_HOLDERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/rank_ops.h"

namespace weft {

// Identifies a gradient: (tensor, index of the use of the tensor).
using GradientUse = std::pair<int, int>;

// A tensor whose uses are on several ranks.
struct SharedGradient {
  // The uses of the tensor, in model order.
  std::vector<GradientUse> uses;
  // The pipe ranks that hold the uses, ascending.
  std::vector<int64_t> ranks;
  // True if each rank holds one use, false if every rank holds every use.
  bool over_ranks = false;
};

struct GradientHolders {
  explicit GradientHolders(ir::ProgramOp program);

  // The gradient buffer to which backwards of `stage` add.
  ir::OperandAttr Gradient(int stage, const GradientUse& use) const;

  // The pipe ranks that hold the gradient of `use`, ascending.
  std::vector<int64_t> HoldersOf(const GradientUse& use) const;

  // Role of the buffers to which backwards add gradients: Grad, or accumulators under exact accumulation.
  ir::Role held_role = ir::Role::Grad;
  // ZeRO stage 1: the rank's part of each gradient, into which it is scattered at the end of the iteration. Empty if
  // gradients are not scattered.
  std::map<GradientUse, ir::OperandAttr> parts;
  // The pipe ranks that hold each gradient.
  std::map<GradientUse, std::set<int64_t>> holders;
  std::map<GradientUse, int> stage_of;
  // The gradients of each stage, in the order in which the stage's backward has them.
  std::map<int, std::vector<ir::OperandAttr>> of_stage;
  // Tensors whose uses are on several ranks.
  std::map<int, SharedGradient> shared;
  // The uses of those tensors for which every rank holds every use (not `over_ranks`).
  std::set<GradientUse> every_use;

 private:
  void ReadSignatures(ir::ProgramOp program);
  void SortUses();
};

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_GRADIENT_HOLDERS_H_
