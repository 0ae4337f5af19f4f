// The pass cache-gathered: saves weights that a forward has gathered, so that its backward need not gather them again.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/overlap/knapsack.h"
#include "compiler/overlap/overlap_util.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_CACHEGATHERED
#include "compiler/passes/passes.h.inc"

namespace {

constexpr int64_t kValueAlignment = 64;
// The role of gathered weights that are saved. The segment returns them after its other results.
constexpr ir::Role kKept = ir::Role::Saved;

// Gathers in two segments of a stage make the same values if their keys are equal.
struct GatherKey {
  std::vector<const void*> parts;

  static GatherKey Of(ir::SegmentOp segment, ir::GroupAllGatherOp gather) {
    GatherKey key;
    key.Add(segment, gather);
    return key;
  }
  void Add(ir::SegmentOp segment, ir::GroupAllGatherOp gather) {
    for (mlir::Value input : gather.getInputs()) {
      if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(input)) {
        parts.push_back(segment.getArgRole(argument.getArgNumber()).getAsOpaquePointer());
      } else {
        Add(segment, GatherOfWeights(input.getDefiningOp()));
        parts.push_back(reinterpret_cast<const void*>(uintptr_t{mlir::cast<mlir::OpResult>(input).getResultNumber()}));
      }
    }
    for (mlir::Type type : gather.getResultTypes()) parts.push_back(type.getAsOpaquePointer());
    parts.push_back(gather.getOverAttr().getAsOpaquePointer());
  }
  friend bool operator==(const GatherKey&, const GatherKey&) = default;
};

// True if the gather's outputs are whole weights: no other gather of weights reads them.
bool IsWhole(ir::GroupAllGatherOp gather) {
  return llvm::none_of(gather->getUsers(),
                       [](mlir::Operation* user) { return static_cast<bool>(GatherOfWeights(user)); });
}

// Removes the outputs that nothing reads from a gather, then does the same for the gathers that made their inputs.
void EraseUnused(ir::GroupAllGatherOp gather) {
  llvm::SmallVector<mlir::Value> inputs, outputs;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::Operation*> makers;
  for (auto [input, output] : llvm::zip(gather.getInputs(), gather.getOutputs())) {
    if (output.use_empty()) {
      if (mlir::Operation* maker = input.getDefiningOp(); !llvm::is_contained(makers, maker)) makers.push_back(maker);
      continue;
    }
    inputs.push_back(input);
    outputs.push_back(output);
    types.push_back(output.getType());
  }
  if (makers.empty() && outputs.size() == gather.getOutputs().size()) return;
  if (!outputs.empty()) {
    mlir::OpBuilder builder(gather);
    auto rest = builder.create<ir::GroupAllGatherOp>(gather.getLoc(), types, inputs, gather->getAttrs());
    for (auto [before, after] : llvm::zip(outputs, rest.getOutputs())) before.replaceAllUsesWith(after);
  }
  gather.erase();
  for (mlir::Operation* maker : makers) {
    if (ir::GroupAllGatherOp before = GatherOfWeights(maker)) EraseUnused(before);
  }
}

// A gather in a forward, and the gathers in backwards that gather the same weights again.
struct Candidate {
  ir::SegmentOp forward;
  ir::GroupAllGatherOp gather;
  std::vector<std::pair<ir::SegmentOp, ir::GroupAllGatherOp>> again;
  int stage = 0;
  KnapsackItem item;
};

void EraseUnusedArguments(ir::SegmentOp segment) {
  llvm::SmallVector<mlir::Attribute> roles;
  for (unsigned i = segment.getBody().getNumArguments(); i-- > 0;) {
    if (segment.getBody().getArgument(i).use_empty()) {
      segment.getBody().eraseArgument(i);
    } else {
      roles.push_back(segment.getArgRole(i));
    }
  }
  std::reverse(roles.begin(), roles.end());
  segment.setArgRolesAttr(mlir::ArrayAttr::get(segment.getContext(), roles));
}

struct CacheGatheredPass : impl::CacheGatheredBase<CacheGatheredPass> {
  using CacheGatheredBase::CacheGatheredBase;

  void runOnOperation() override {
    std::vector<Candidate> candidates = FindCandidates();
    for (int chosen : Choose(candidates)) Keep(candidates[chosen]);
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      for (mlir::Operation& op : segment.getBody().front()) op.removeAttr(kCostAttr);
    }
  }

  // True if the pass may keep the gather's outputs. With `replicas`, the gather must run over the axis data. Without
  // `replicas`, no other gather of weights may read its outputs.
  bool MayKeep(ir::GroupAllGatherOp gather) const { return replicas ? IsOverReplicas(gather) : IsWhole(gather); }

  std::vector<Candidate> FindCandidates() {
    std::vector<Candidate> candidates;
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      if (segment.getKind() != ir::SegmentKind::Forward) continue;
      for (mlir::Operation& op : segment.getBody().front()) {
        ir::GroupAllGatherOp gather = GatherOfWeights(&op);
        if (gather && MayKeep(gather)) candidates.push_back(CandidateOf(segment, gather));
      }
    }
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      if (segment.getKind() != ir::SegmentKind::Backward && segment.getKind() != ir::SegmentKind::BackwardInput) {
        continue;
      }
      for (mlir::Operation& op : segment.getBody().front()) {
        ir::GroupAllGatherOp gather = GatherOfWeights(&op);
        if (!gather || !MayKeep(gather)) continue;
        const GatherKey key = GatherKey::Of(segment, gather);
        for (Candidate& candidate : candidates) {
          if (candidate.stage != static_cast<int>(segment.getStage())) continue;
          if (!(GatherKey::Of(candidate.forward, candidate.gather) == key)) continue;
          candidate.again.emplace_back(segment, gather);
          break;
        }
      }
    }
    std::erase_if(candidates, [](const Candidate& candidate) { return candidate.again.empty(); });
    return candidates;
  }

  Candidate CandidateOf(ir::SegmentOp segment, ir::GroupAllGatherOp gather) {
    Candidate candidate;
    candidate.forward = segment;
    candidate.gather = gather;
    candidate.stage = static_cast<int>(segment.getStage());
    const size_t stage = segment.getStage();
    const int64_t copies = stage < inFlight.size() ? std::max(1, inFlight[stage]) : 1;
    for (mlir::Type type : gather.getResultTypes()) {
      const int64_t bytes = ir::BytesOfTensor(mlir::cast<mlir::RankedTensorType>(type));
      candidate.item.bytes =
          ir::SaturatingAdd(candidate.item.bytes,
                            ir::SaturatingMultiply(copies, ir::SaturatingAdd(bytes, -bytes & (kValueAlignment - 1))));
    }
    candidate.item.value = ValueOf(gather);
    return candidate;
  }

  // Time saved if the gather is not repeated: the gather's own time, plus a share of the time of earlier gathers. For
  // each output of an earlier gather that only this gather reads, the share is that output's part of the earlier
  // gather's bytes.
  static int64_t ValueOf(ir::GroupAllGatherOp gather) {
    auto time = [](ir::GroupAllGatherOp op) {
      auto cost = op->getAttrOfType<mlir::IntegerAttr>(kCostAttr);
      return cost ? cost.getInt() : op.bytes();
    };
    int64_t value = time(gather);
    for (mlir::Value input : gather.getInputs()) {
      ir::GroupAllGatherOp before = GatherOfWeights(input.getDefiningOp());
      if (!before || !input.hasOneUse()) continue;
      double all = 0;
      for (mlir::Type type : before.getResultTypes()) {
        all += static_cast<double>(ir::BytesOfTensor(mlir::cast<mlir::RankedTensorType>(type)));
      }
      const auto part = static_cast<double>(ir::BytesOfTensor(mlir::cast<mlir::RankedTensorType>(input.getType())));
      value = ir::SaturatingAdd(value, static_cast<int64_t>(static_cast<double>(time(before)) * (part / all)));
    }
    return value;
  }

  // Returns the stages of each pipe rank.
  std::vector<std::vector<int>> StagesOfRanks() {
    int stages = 0;
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      if (!ir::IsOfRank(segment.getKind())) stages = std::max(stages, static_cast<int>(segment.getStage()) + 1);
    }
    std::vector<std::vector<int>> ranks;
    auto add = [&](int rank, int stage) {
      if (rank < 0) return;
      if (rank >= static_cast<int>(ranks.size())) ranks.resize(rank + 1);
      ranks[rank].push_back(stage);
    };
    for (int stage = 0; placement.empty() && stage < stages; ++stage) add(stage, stage);
    for (size_t i = 0; i < placement.size(); ++i) add(placement[i], static_cast<int>(i) % stages);
    return ranks;
  }

  std::vector<int> Choose(const std::vector<Candidate>& candidates) {
    std::vector<bool> kept(candidates.size(), bytes > 0);
    for (const std::vector<int>& rank : StagesOfRanks()) {
      std::vector<int> index;
      std::vector<KnapsackItem> items;
      for (size_t i = 0; i < candidates.size(); ++i) {
        const int64_t held = llvm::count(rank, candidates[i].stage);
        if (held == 0) continue;
        index.push_back(static_cast<int>(i));
        items.push_back({ir::SaturatingMultiply(held, candidates[i].item.bytes), candidates[i].item.value});
      }
      std::vector<bool> chosen(items.size(), false);
      for (int i : ChooseItems(items, bytes)) chosen[i] = true;
      for (size_t i = 0; i < index.size(); ++i) kept[index[i]] = kept[index[i]] && chosen[i];
    }
    std::vector<int> result;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) result.push_back(static_cast<int>(i));
    }
    return result;
  }

  void Keep(Candidate& candidate) {
    mlir::MLIRContext* context = &getContext();
    int32_t use = 0;
    llvm::SmallVector<mlir::Attribute> roles(candidate.forward.getResultRoles().getValue());
    for (mlir::Attribute role : roles) {
      auto known = mlir::cast<ir::RoleAttr>(role);
      if (known.getRole() == kKept) use = std::max(use, known.getUse() + 1);
    }
    ir::ReturnOp ret = candidate.forward.getReturn();
    for (auto [index, result] : llvm::enumerate(candidate.gather.getOutputs())) {
      auto role = ir::RoleAttr::get(context, kKept, -1, use++);
      ret.getValuesMutable().append(result);
      roles.push_back(role);
      for (auto [segment, again] : candidate.again) {
        mlir::BlockArgument kept = segment.addArgument(role, result.getType(), again.getLoc());
        again.getOutputs()[index].replaceAllUsesWith(kept);
      }
    }
    candidate.forward.setResultRolesAttr(mlir::ArrayAttr::get(context, roles));
    for (auto [segment, again] : candidate.again) {
      EraseUnused(again);
      EraseUnusedArguments(segment);
    }
  }
};

}  // namespace
}  // namespace weft
