// How far receives run ahead: k buffers per edge besides the one in use.
//
//   k = 1    list:  R0 R1 | C0 R2 | C1 R3 | C2 ...       R2 waits for C0, the reader of R0's buffer.
#include <map>
#include <tuple>

#include "compiler/rank_passes.h"
#include "compiler/rank_util.h"
#include "llvm/ADT/DenseMap.h"

namespace weft {

#define GEN_PASS_DEF_PLACERECEIVES
#include "compiler/rank_passes.h.inc"

namespace {

// Places in the list before anything is moved. Only receives move, and each is asked about before it does, so these
// stay true; MLIR's own numbering would be made anew after every move.
using Places = llvm::DenseMap<mlir::Operation*, int64_t>;

// The first compute action in the list that reads the buffer of a recv; null if there is none.
mlir::Operation* Consumer(ir::RecvOp recv, const Places& places) {
  mlir::Operation* first = nullptr;
  for (mlir::Operation* user : recv.getDestination().getUsers()) {
    if (ir::IsCompute(user) && (first == nullptr || places.lookup(user) < places.lookup(first))) first = user;
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
    Places places;
    for (mlir::Operation& op : t.getBody().front()) places.try_emplace(&op, places.size());
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
        place = Consumer(edge[index - ahead - 1], places);
        if (place == nullptr || places.lookup(place) > places.lookup(recv)) continue;
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
