#include "compiler/rank/weight_gathers.h"

#include <map>
#include <set>

#include "compiler/rank/rank_collectives.h"

namespace weft {

void GatherWeights(ir::ProgramOp program, ir::TemplateOp t, ir::SignatureOp optimizer, mlir::OpBuilder& builder,
                   PersistentBuffers& buffers) {
  // By tensor: what the rank has of it to send.
  std::map<int, ir::OperandAttr> parts;
  std::set<int> whole;
  for (unsigned i = 0; i < optimizer.size(); ++i) {
    ir::OperandAttr operand = optimizer.getOperand(i);
    const int tensor = operand.getRole().getTensor();
    if (operand.getRole().getRole() == ir::Role::Param) whole.insert(tensor);
    if (operand.getRole().getRole() == ir::Role::Master) parts.try_emplace(tensor, operand);
    if (operand.getRole().getRole() == ir::Role::ParamPart) parts[tensor] = operand;
  }
  for (int tensor : whole) parts.erase(tensor);
  if (parts.empty()) return;
  const mlir::DictionaryAttr over = GroupOver(program, {"data"}, DataRanks::kSharing);
  const int64_t limit = static_cast<int64_t>(program.getGradientBucketBytes());
  llvm::SmallVector<mlir::Value> sources, destinations;
  int64_t bytes = 0;
  int stage = 0;
  auto close = [&] {
    if (sources.empty()) return;
    builder.create<ir::AllGatherOp>(program.getLoc(), mlir::TypeRange(), ir::TokenType::get(program.getContext()),
                                    sources, destinations, over, ir::Purpose::GatherWeights, program.getCollective(),
                                    stage, mlir::ValueRange(), mlir::DenseI64ArrayAttr());
    sources.clear();
    destinations.clear();
    bytes = 0;
  };
  std::set<mlir::Operation*> seen;
  for (mlir::Operation& op : t.getBody().front()) {
    if (!ir::IsMicrobatch(&op)) continue;
    ir::SignatureOp signature = SignatureOf(&op);
    if (!seen.insert(signature).second) continue;
    for (unsigned i = 0; i < signature.size(); ++i) {
      ir::OperandAttr operand = signature.getOperand(i);
      if (operand.getRole().getRole() != ir::Role::Param) continue;
      auto part = parts.find(operand.getRole().getTensor());
      if (part == parts.end()) continue;
      stage = PartOf(&op, operand.getHalf()).stage;
      sources.push_back(buffers.Get(part->second.getRole(), part->second.getType()));
      destinations.push_back(buffers.Get(operand.getRole(), operand.getType()));
      bytes += operand.getType().getBytes();
      parts.erase(part);
      if (limit > 0 && bytes >= limit) close();
    }
    close();
  }
}

}  // namespace weft
