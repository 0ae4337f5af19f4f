#include "compiler/rank/gradient_holders.h"

#include "llvm/ADT/STLExtras.h"

namespace weft {

GradientHolders::GradientHolders(ir::ProgramOp program) {
  ReadSignatures(program);
  if (!program.getEvaluation()) SortUses();
}

void GradientHolders::ReadSignatures(ir::ProgramOp program) {
  for (ir::SignatureOp signature : program.getOps<ir::SignatureOp>()) {
    for (unsigned i = 0; i < signature.size(); ++i) {
      const ir::Role role = signature.getOperand(i).getRole().getRole();
      if (role == ir::Role::GradAccumulator) held_role = role;
    }
  }
  for (ir::SignatureOp signature : program.getOps<ir::SignatureOp>()) {
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      const ir::Role role = operand.getRole().getRole();
      const ir::Role part = held_role == ir::Role::Grad ? ir::Role::GradPart : ir::Role::GradAccumulatorPart;
      if (role != held_role && role != part) continue;
      const GradientUse use = {operand.getRole().getTensor(), operand.getRole().getUse()};
      if (role == part) {
        parts.try_emplace(use, operand);
        continue;
      }
      if (signature.getRank() >= 0) {
        holders[use].insert(signature.getRank());
        continue;
      }
      const bool pair = signature.getKind() == ir::SegmentKind::ForwardBackward;
      if (operand.getAccess() == ir::Access::Read) continue;
      const int stage = pair ? signature.getBackwardStage() : static_cast<int>(signature.getStage());
      if (stage_of.try_emplace(use, stage).second) of_stage[stage].push_back(operand);
    }
  }
}

void GradientHolders::SortUses() {
  // Maps a tensor to its uses.
  std::map<int, std::vector<GradientUse>> uses;
  for (const auto& [use, ranks] : holders) uses[use.first].push_back(use);
  for (const auto& [tensor, list] : uses) {
    std::set<int64_t> all;
    size_t held = 0;
    for (const GradientUse& use : list) {
      all.insert(holders[use].begin(), holders[use].end());
      held += holders[use].size();
    }
    if (list.size() == 1 || all.size() == 1) continue;
    SharedGradient& sum = shared[tensor];
    sum.uses = list;
    sum.ranks.assign(all.begin(), all.end());
    // If `over_ranks` is false, every rank holds every use.
    sum.over_ranks = held == all.size();
    if (sum.over_ranks) continue;
    for (const GradientUse& use : list) every_use.insert(use);
  }
}

std::vector<int64_t> GradientHolders::HoldersOf(const GradientUse& use) const {
  auto found = holders.find(use);
  if (found == holders.end()) return {};
  return {found->second.begin(), found->second.end()};
}

ir::OperandAttr GradientHolders::Gradient(int stage, const GradientUse& use) const {
  return *llvm::find_if(of_stage.at(stage), [&](ir::OperandAttr gradient) {
    return GradientUse(gradient.getRole().getTensor(), gradient.getRole().getUse()) == use;
  });
}

}  // namespace weft
