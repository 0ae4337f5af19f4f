#include "compiler/rank/message_moments.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/rank/rank_util.h"

namespace weft {
namespace {

// A stream of transfers on one rank: (send or recv, peer, direction, lane, skip). If edges share streams, fields in
// which those edges differ are set to 0.
using Stream = std::tuple<bool, const void*, int, uint32_t, uint32_t>;

Stream StreamOf(mlir::Operation* transfer, ir::TransferStreams streams) {
  auto of = [&](auto op) -> Stream {
    if (streams == ir::TransferStreams::Shared) return {};
    if (streams == ir::TransferStreams::PerDirection)
      return {false, nullptr, static_cast<int>(op.getDirection()), 0, 0};
    return {mlir::isa<ir::SendOp>(transfer), op.getPeer().getAsOpaquePointer(), static_cast<int>(op.getDirection()),
            op.getLane(), op.getSkip()};
  };
  if (auto send = mlir::dyn_cast<ir::SendOp>(transfer)) return of(send);
  return of(mlir::cast<ir::RecvOp>(transfer));
}

bool IsTransfer(mlir::Operation* op) { return mlir::isa<ir::SendOp, ir::RecvOp>(op); }

}  // namespace

int MessageMoments::Root(int node) const {
  while (nodes_[node].parent != node) node = nodes_[node].parent;
  return node;
}

int MessageMoments::NodeOf(mlir::Operation* transfer, const ReferenceTimes& times) {
  auto [found, added] = node_of_.try_emplace(transfer, static_cast<int>(nodes_.size()));
  const int node = found->second;
  if (!added) return node;
  nodes_.emplace_back().parent = node;
  if (mlir::Operation* partner = times.Partner(transfer)) node_of_[partner] = node;
  return node;
}

void MessageMoments::Bound(mlir::Operation* transfer, const ReferenceTimes& times) {
  Node& node = nodes_[node_of_.lookup(transfer)];
  auto after = [&](mlir::Operation* compute) {
    const ReferenceTime* time = compute != nullptr ? times.Find(compute) : nullptr;
    if (time != nullptr) node.made = std::max(node.made, time->end);
  };
  auto before = [&](mlir::Value value) {
    for (mlir::Operation* user : value.getUsers()) {
      const ReferenceTime* time = times.Find(user);
      if (time != nullptr) node.needed = std::min(node.needed, time->start);
    }
  };
  if (auto send = mlir::dyn_cast<ir::SendOp>(transfer)) {
    after(send.getSource().getDefiningOp());
    before(send.getDone());
    return;
  }
  auto recv = mlir::cast<ir::RecvOp>(transfer);
  for (mlir::Value token : recv.getAfter()) after(token.getDefiningOp());
  before(recv.getDestination());
  before(recv.getDone());
}

MessageMoments::MessageMoments(ir::ProgramOp program, const ReferenceTimes& times,
                               const llvm::DenseMap<mlir::Operation*, int>& group_of) {
  llvm::DenseMap<int, int> group_node;
  for (ir::TemplateOp t : Templates(program)) {
    for (mlir::Operation& op : t.getBody().front()) {
      if (!IsTransfer(&op)) continue;
      const int node = NodeOf(&op, times);
      Bound(&op, times);
      auto group = group_of.find(&op);
      if (group == group_of.end()) continue;
      auto [first, added] = group_node.try_emplace(group->second, node);
      if (!added) nodes_[Root(node)].parent = Root(first->second);
    }
  }
  Join();
  for (ir::TemplateOp t : Templates(program)) {
    std::map<Stream, mlir::Operation*> last;
    for (mlir::Operation& op : t.getBody().front()) {
      if (!IsTransfer(&op)) continue;
      const int node = Root(node_of_.lookup(&op));
      auto [previous, first] = last.try_emplace(StreamOf(&op, program.getTransferStreams()), &op);
      mlir::Operation* front = std::exchange(previous->second, &op);
      // Transfers of one group are sent together, even on one stream. Otherwise the second transfer waits for the
      // first.
      if (first ||
          (group_of.count(&op) > 0 && group_of.count(front) > 0 && group_of.lookup(&op) == group_of.lookup(front))) {
        continue;
      }
      nodes_[Root(node_of_.lookup(front))].next.push_back(node);
      ++nodes_[node].before;
    }
  }
  Spread();
}

// Merges messages that are sent together into one node.
void MessageMoments::Join() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].parent = Root(static_cast<int>(i));
    nodes_[i].first = nodes_[i].made;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& root = nodes_[nodes_[i].parent];
    root.first = std::min(root.first, nodes_[i].made);
    root.made = std::max(root.made, nodes_[i].made);
    root.needed = std::min(root.needed, nodes_[i].needed);
  }
}

MessageMoments MessageMoments::FromProgram(ir::ProgramOp program, const ReferenceTimes& times) {
  llvm::DenseMap<mlir::Operation*, int> group_of;
  int groups = 0;
  for (ir::TemplateOp t : Templates(program)) {
    uint32_t current = 0;
    for (mlir::Operation& op : t.getBody().front()) {
      uint32_t group = 0;
      if (auto send = mlir::dyn_cast<ir::SendOp>(op)) group = send.getGroup();
      if (auto recv = mlir::dyn_cast<ir::RecvOp>(op)) group = recv.getGroup();
      if (group != 0 && group != current) ++groups;
      if (group != 0) group_of[&op] = groups;
      current = group;
    }
  }
  return MessageMoments(program, times, group_of);
}

void MessageMoments::Spread() {
  std::vector<int> order;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].moment = nodes_[i].made;
    if (nodes_[i].parent == static_cast<int>(i) && nodes_[i].before == 0) order.push_back(static_cast<int>(i));
  }
  for (size_t k = 0; k < order.size(); ++k) {
    const Node& node = nodes_[order[k]];
    for (int next : node.next) {
      nodes_[next].moment = std::max(nodes_[next].moment, node.moment);
      if (--nodes_[next].before == 0) order.push_back(next);
    }
  }
  // The nodes that still have predecessors (`before`) are in a cycle or come after one.
  std::vector<std::vector<int>> back(nodes_.size());
  std::vector<int> behind(nodes_.size(), 0), ends;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (node.before == 0) continue;
    node.moment = kNever;
    node.circle = true;
    behind[i] = static_cast<int>(node.next.size());
    for (int next : node.next) back[next].push_back(static_cast<int>(i));
    if (behind[i] == 0) ends.push_back(static_cast<int>(i));
  }
  while (!ends.empty()) {
    const int end = ends.back();
    ends.pop_back();
    nodes_[end].circle = false;
    for (int previous : back[end]) {
      if (--behind[previous] == 0) ends.push_back(previous);
    }
  }
  for (size_t k = order.size(); k-- > 0;) {
    Node& node = nodes_[order[k]];
    for (int next : node.next) node.needed = std::min(node.needed, nodes_[next].needed);
  }
}

int64_t MessageMoments::MomentOf(mlir::Operation* transfer) const {
  auto node = node_of_.find(transfer);
  return node == node_of_.end() ? kNever : nodes_[Root(node->second)].moment;
}

bool MessageMoments::InTime(mlir::Operation* transfer) const {
  auto found = node_of_.find(transfer);
  if (found == node_of_.end()) return false;
  const Node& node = nodes_[Root(found->second)];
  return !node.circle && node.made <= node.needed;
}

bool MessageMoments::DelaysMember(mlir::Operation* transfer) const {
  auto found = node_of_.find(transfer);
  if (found == node_of_.end()) return false;
  const Node& node = nodes_[Root(found->second)];
  return node.first < node.made;
}

}  // namespace weft
