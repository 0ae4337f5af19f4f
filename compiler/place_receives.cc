// How far receives run ahead: k buffers per edge besides the one in use.
//
//   k = 1    list:  R0 R1 | C0 R2 | C1 R3 | C2 ...       R2 waits for C0, the reader of R0's buffer.
#include <map>
#include <tuple>

#include "compiler/rank_passes.h"
#include "compiler/rank_util.h"

namespace weft {

#define GEN_PASS_DEF_PLACERECEIVES
#include "compiler/rank_passes.h.inc"

namespace {

// The first compute action in the list that reads the buffer of a recv; null if there is none.
mlir::Operation* Consumer(ir::RecvOp recv) {
  mlir::Operation* first = nullptr;
  for (mlir::Operation* user : recv.getDestination().getUsers()) {
    if (ir::IsCompute(user) && (first == nullptr || user->isBeforeInBlock(first))) first = user;
  }
  return first;
}

class PlaceReceivesPass : public impl::PlaceReceivesBase<PlaceReceivesPass> {
  void runOnOperation() override {
    for (ir::TemplateOp t : Templates(getOperation())) Place(t);
  }

  void Place(ir::TemplateOp t) {
    // (peer, direction, lane) -> receives in order.
    std::map<std::tuple<const void*, ir::Direction, uint32_t>, std::vector<ir::RecvOp>> edges;
    std::vector<std::pair<ir::RecvOp, int>> receives;
    for (ir::RecvOp recv : t.getOps<ir::RecvOp>()) {
      auto& edge = edges[{recv.getPeer().getAsOpaquePointer(), recv.getDirection(), recv.getLane()}];
      receives.emplace_back(recv, edge.size());
      edge.push_back(recv);
    }
    const int ahead = static_cast<int>(getOperation().getReceiveBuffers());
    mlir::Operation* head = nullptr;
    for (mlir::Operation& op : t.getBody().front()) {
      if (!mlir::isa<ir::PersistentOp>(op)) break;
      head = &op;
    }
    // What was placed last behind an action: receives that share a place keep their order.
    std::map<mlir::Operation*, mlir::Operation*> behind;
    for (auto [recv, index] : receives) {
      const auto& edge = edges[{recv.getPeer().getAsOpaquePointer(), recv.getDirection(), recv.getLane()}];
      mlir::Operation* place = head;
      if (index > ahead) {
        place = Consumer(edge[index - ahead - 1]);
        if (place == nullptr || !place->isBeforeInBlock(recv)) continue;
        recv.getAfterMutable().append(ir::DoneToken(place));
      }
      auto [last, first] = behind.try_emplace(place, place);
      if (last->second == nullptr) {
        recv->moveBefore(&t.getBody().front(), t.getBody().front().begin());
      } else {
        recv->moveAfter(last->second);
      }
      last->second = recv;
    }
  }
};

}  // namespace
}  // namespace weft
