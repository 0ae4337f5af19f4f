// The pass reuse-saved: values that only the input half of a backward reads end with it, or what it makes for the
// weight half takes their place.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/passes/passes.h"
#include "compiler/segments/saved_for_input.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

#define GEN_PASS_DEF_REUSESAVED
#include "compiler/passes/passes.h.inc"

namespace {

// The segments of a stage that use its saved values.
struct Stage {
  ir::SegmentOp forward, input, weight;
};

// A saved value that the weight half does not read.
struct Ending {
  int32_t use = 0;
  mlir::Type type;
  // The last op of the input half that reads it, by position.
  int last_read = 0;
};

class InputHalf {
 public:
  explicit InputHalf(ir::SegmentOp segment) : segment_(segment) {
    for (mlir::Operation& op : segment.getBody().front()) {
      position_.try_emplace(&op, static_cast<int>(position_.size()));
    }
  }

  // The saved values that are not in `kept`, the one that is read no more first.
  std::vector<Ending> EndingValues(const std::set<int32_t>& kept) {
    std::vector<Ending> ending;
    for (auto [index, argument] : llvm::enumerate(segment_.getBody().getArguments())) {
      ir::RoleAttr role = segment_.getArgRole(index);
      if (role.getRole() != ir::Role::Saved || kept.count(role.getUse()) > 0) continue;
      Ending& value = ending.emplace_back(Ending{role.getUse(), argument.getType(), -1});
      for (mlir::Operation* user : argument.getUsers()) {
        value.last_read = std::max(value.last_read, position_.lookup(user));
      }
    }
    llvm::sort(ending, [](const Ending& a, const Ending& b) {
      return std::tie(a.last_read, a.use) < std::tie(b.last_read, b.use);
    });
    return ending;
  }

  // The position of the first op that writes to the place of `value`; -1 if it lies where an argument lies. An op whose
  // result is tied to an operand writes to the operand's place. An all-reduce may do so (segment_storage.h).
  int FirstWrite(mlir::Value value) const {
    for (;;) {
      auto result = mlir::dyn_cast<mlir::OpResult>(value);
      if (!result) return -1;
      mlir::Operation* op = result.getOwner();
      int tied = mlir::cast<ir::KernelInterface>(op).getTiedOperand(result.getResultNumber());
      if (tied < 0 && mlir::isa<ir::GroupAllReduceOp>(op) &&
          op->getOperand(result.getResultNumber()).getDefiningOp() != nullptr) {
        tied = static_cast<int>(result.getResultNumber());
      }
      if (tied < 0) return position_.lookup(op);
      value = op->getOperand(tied);
    }
  }

 private:
  ir::SegmentOp segment_;
  llvm::DenseMap<mlir::Operation*, int> position_;
};

struct ReuseSavedPass : impl::ReuseSavedBase<ReuseSavedPass> {
  void runOnOperation() override {
    std::map<int64_t, Stage> stages;
    for (ir::SegmentOp segment : getOperation().getOps<ir::SegmentOp>()) {
      if (segment.getKind() == ir::SegmentKind::Forward) stages[segment.getStage()].forward = segment;
      if (segment.getKind() == ir::SegmentKind::BackwardInput) stages[segment.getStage()].input = segment;
      if (segment.getKind() == ir::SegmentKind::BackwardWeight) stages[segment.getStage()].weight = segment;
    }
    for (auto& [number, stage] : stages) {
      if (stage.forward && stage.input && stage.weight) Rewrite(stage);
    }
  }

  // The numbers of the saved values that the weight half reads, and of the gathered weights.
  static std::set<int32_t> UsesOf(ir::SegmentOp weight) {
    std::set<int32_t> uses;
    for (mlir::Attribute attribute : weight.getArgRoles()) {
      auto role = mlir::cast<ir::RoleAttr>(attribute);
      if (role.getRole() == ir::Role::Saved) uses.insert(role.getUse());
    }
    return uses;
  }

  static std::set<int32_t> GatheredWeights(ir::SegmentOp forward) {
    std::set<int32_t> uses;
    for (auto [index, value] : llvm::enumerate(forward.getReturn().getValues())) {
      ir::RoleAttr role = forward.getResultRole(index);
      if (role.getRole() == ir::Role::Saved && ir::IsGatheredWeight(value)) uses.insert(role.getUse());
    }
    return uses;
  }

  void Rewrite(Stage& stage) {
    InputHalf half(stage.input);
    std::vector<Ending> ending = half.EndingValues(UsesOf(stage.weight));
    const std::set<int32_t> weights = GatheredWeights(stage.forward);

    // The values for the weight half, in the order in which they are made: first write, and index of the result.
    std::vector<std::pair<int, size_t>> made;
    for (auto [index, value] : llvm::enumerate(stage.input.getReturn().getValues())) {
      if (stage.input.getResultRole(index).getRole() != ir::Role::SavedGrad) continue;
      if (const int first = half.FirstWrite(value); first >= 0) made.emplace_back(first, index);
    }
    llvm::sort(made);

    mlir::MLIRContext* context = &getContext();
    llvm::SmallVector<mlir::Attribute> results(stage.input.getResultRoles().getValue());
    llvm::DenseMap<mlir::Attribute, mlir::Attribute> moved;
    for (const auto& [first, index] : made) {
      const mlir::Type type = stage.input.getReturn().getValues()[index].getType();
      auto place = llvm::find_if(ending, [&, first = first](const Ending& value) {
        return value.last_read < first && value.type == type && weights.count(value.use) == 0;
      });
      if (place == ending.end()) continue;
      const auto role = ir::RoleAttr::get(context, ir::Role::Saved, -1, place->use);
      moved[results[index]] = role;
      results[index] = role;
      ending.erase(place);
    }
    stage.input.setResultRolesAttr(mlir::ArrayAttr::get(context, results));
    llvm::SmallVector<mlir::Attribute> arguments(stage.weight.getArgRoles().getValue());
    for (mlir::Attribute& role : arguments) {
      if (auto found = moved.find(role); found != moved.end()) role = found->second;
    }
    stage.weight.setArgRolesAttr(mlir::ArrayAttr::get(context, arguments));

    std::vector<int32_t> uses;
    for (const Ending& value : ending) uses.push_back(value.use);
    llvm::sort(uses);
    if (!uses.empty()) stage.forward->setAttr(kSavedForInputAttr, mlir::DenseI32ArrayAttr::get(context, uses));
  }
};

}  // namespace
}  // namespace weft
