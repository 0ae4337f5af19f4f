// Decides how far receives run ahead, how many sends may wait, and in which order a rank's transfers stand.
//
//   receive_buffers = 1    list:  R0 R1 | C0 R2 | C1 R3 | C2 ...     R2 waits for C0, the reader of R0's buffer.
//
// A schedule that can run must not block because of these decisions. So each decision is checked against the reference
// times of the program (reference_times.h), in which a message takes no time:
//   - Receives of an edge stand in the order of its sends, whatever order they are read in. At most `receive_buffers`
//     earlier receives may be unread when a receive starts: it waits until enough of them are read, but never for an
//     action after the reader of this receive or of a later one.
//   - The maker of a send waits for the send `send_buffers` before it on the edge. If the schedule has more messages in
//     flight than that, the maker waits only for the latest message that has been sent by then. (Looped schedules with
//     many microbatches keep most of them in flight between the last rank and the first.)
//   - If edges share a stream and receives are deferred, transfers stand in the same order on all ranks, sorted by the
//     earliest time at which they can be sent.
//   - Neighbors form a group only if the whole group can be sent before any action starts that needs one of its
//     messages, or a message after one of them on a stream. An action needs a message if it reads the message or waits
//     until the message is sent.
// All decisions together agree with one order in time, so ranks never wait for each other in a cycle. Early receives on
// shared streams are the exception: they stand where they would on streams of their own, and may block.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "compiler/rank/message_moments.h"
#include "compiler/rank/rank_passes.h"
#include "compiler/rank/rank_util.h"
#include "compiler/rank/reference_times.h"
#include "llvm/ADT/DenseMap.h"

namespace weft {

#define GEN_PASS_DEF_PLACERECEIVES
#include "compiler/rank/rank_passes.h.inc"

namespace {

constexpr int kNever = std::numeric_limits<int>::max();

// The edge that a transfer belongs to: (peer, direction, lane, skip).
using Edge = std::tuple<const void*, ir::Direction, uint32_t, uint32_t>;

template <typename Op>
Edge EdgeOf(Op op) {
  return {op.getPeer().getAsOpaquePointer(), op.getDirection(), op.getLane(), op.getSkip()};
}

// The earliest time at which a message can be sent. Further fields make it unique, so that both ranks of the message
// see the same order.
using Moment = std::tuple<int64_t, int64_t, int>;

// A send or receive and its place in the list. Compute actions are numbered; gap g lies between actions g - 1 and g.
struct Transfer {
  mlir::Operation* op = nullptr;
  Moment moment;
  int gap = 0;
  // For receives: `reader` is the first compute action that reads the message (kNever = none). `waits` is true if the
  // receive waits for the compute action before its gap.
  int reader = kNever;
  bool waits = false;
  // Position of the receive among the receives of its gap.
  int sequence = 0;
};

class ListPlacer {
 public:
  ListPlacer(ir::ProgramOp program, ir::TemplateOp t, const ReferenceTimes& times,
             const llvm::DenseMap<mlir::Operation*, int>& positions)
      : program_(program), template_(t), times_(times), positions_(positions) {
    llvm::DenseMap<mlir::Operation*, int> number;
    for (mlir::Operation& op : t.getBody().front()) {
      if (mlir::isa<ir::PersistentOp>(op)) head_ = &op;
      if (!ir::IsCompute(&op)) continue;
      number[&op] = static_cast<int>(computes_.size());
      computes_.push_back(&op);
    }
    std::vector<Edge> sequence;
    for (mlir::Operation& op : t.getBody().front()) {
      if (auto send = mlir::dyn_cast<ir::SendOp>(op)) {
        auto maker = number.find(send.getSource().getDefiningOp());
        sends_.push_back({&op, MomentOf(&op), maker != number.end() ? maker->second + 1 : 0});
      } else if (auto recv = mlir::dyn_cast<ir::RecvOp>(op)) {
        Transfer transfer{&op, MomentOf(&op)};
        for (mlir::Operation* user : recv.getDestination().getUsers()) {
          auto reader = number.find(user);
          if (reader != number.end()) transfer.reader = std::min(transfer.reader, reader->second);
        }
        sequence.push_back(EdgeOf(recv));
        edges_[EdgeOf(recv)].push_back(transfer);
      }
    }
    for (auto& [key, edge] : edges_) {
      std::stable_sort(edge.begin(), edge.end(),
                       [&](const Transfer& a, const Transfer& b) { return SentAt(a.op) < SentAt(b.op); });
    }
    std::map<Edge, size_t> next;
    for (size_t i = 0; i < sequence.size(); ++i) {
      edges_[sequence[i]][next[sequence[i]]++].sequence = static_cast<int>(i);
    }
  }

  void Place() {
    const bool deferred = program_.getTransferPlacement() == ir::TransferPlacement::Deferred;
    const bool shared = program_.getTransferStreams() != ir::TransferStreams::PerEdge;
    for (auto& [key, edge] : edges_) deferred ? Defer(edge, shared) : RunAhead(edge);
    if (deferred && shared) OrderStreams();
    Write(/*by_moment=*/deferred && shared, /*sends_first=*/deferred);
  }

  // Places receives in a program that chooses its order while running: a receive starts once its microbatch is within
  // the limit, because its buffer is free then.
  void PlaceByLimit() {
    // For each stage, the backwards that finish its microbatches. All ranks finish microbatches in the same order, and
    // an edge carries the microbatches of one stage.
    std::map<int, std::vector<int>> ends;
    for (size_t i = 0; i < computes_.size(); ++i) {
      const int stage = StageOfWeightGradients(computes_[i]);
      if (stage >= 0) ends[stage].push_back(static_cast<int>(i));
    }
    for (auto& [key, edge] : edges_) {
      for (size_t i = program_.getLimit(); i < edge.size(); ++i) {
        const std::vector<int>& of_stage = ends[static_cast<int>(mlir::cast<ir::RecvOp>(edge[i].op).getStage())];
        const size_t end = i - program_.getLimit();
        if (end >= of_stage.size()) continue;
        edge[i].gap = of_stage[end] + 1;
        edge[i].waits = true;
      }
    }
    Write(false, false);
  }

 private:
  int SentAt(mlir::Operation* recv) const {
    mlir::Operation* send = times_.Partner(recv);
    return send != nullptr ? positions_.lookup(send) : -1;
  }

  // Returns the reference time of the action that makes the value that a transfer carries, or null.
  const ReferenceTime* Made(mlir::Operation* transfer) const {
    mlir::Operation* send = mlir::isa<ir::SendOp>(transfer) ? transfer : times_.Partner(transfer);
    mlir::Operation* maker = send != nullptr ? mlir::cast<ir::SendOp>(send).getSource().getDefiningOp() : nullptr;
    return maker != nullptr ? times_.Find(maker) : nullptr;
  }

  Moment MomentOf(mlir::Operation* transfer) const {
    mlir::Operation* send = mlir::isa<ir::SendOp>(transfer) ? transfer : times_.Partner(transfer);
    const ReferenceTime* made = Made(transfer);
    if (send == nullptr || made == nullptr) return {};
    return {made->end, PinnedCoordinate(send->getParentOfType<ir::TemplateOp>(), "pipe"), positions_.lookup(send)};
  }

  // For each receive of an edge, the compute action before which it must stand: the first one that reads this receive
  // or a later receive of the edge.
  std::vector<int> Deadlines(const std::vector<Transfer>& edge) const {
    std::vector<int> deadlines(edge.size());
    int earliest = static_cast<int>(computes_.size());
    for (size_t i = edge.size(); i-- > 0;) deadlines[i] = earliest = std::min(earliest, edge[i].reader);
    return deadlines;
  }

  void RunAhead(std::vector<Transfer>& edge) {
    const size_t ahead = program_.getReceiveBuffers();
    const std::vector<int> deadlines = Deadlines(edge);
    // `readers`: the readers of the receives before i, except the `i - ahead` lowest ones. `read`: the highest reader
    // that was removed from `readers`. `all`: the readers of all receives before i.
    std::multiset<int> readers;
    std::set<int> all;
    int read = -1;
    for (size_t i = 0; i < edge.size(); ++i) {
      if (i > ahead) {
        read = std::max(read, *readers.begin());
        readers.erase(readers.begin());
      }
      int wait = read;
      if (wait >= deadlines[i]) {
        auto late = all.lower_bound(deadlines[i]);
        wait = late == all.begin() ? -1 : *std::prev(late);
      }
      edge[i].gap = wait + 1;
      edge[i].waits = wait >= 0;
      readers.insert(edge[i].reader);
      all.insert(edge[i].reader);
    }
  }

  // Places each receive directly before its deadline (on a shared stream possibly earlier), and makes it wait for the
  // compute action before its gap.
  void Defer(std::vector<Transfer>& edge, bool shared) const {
    const std::vector<int> deadlines = Deadlines(edge);
    for (size_t i = 0; i < edge.size(); ++i) {
      int gap = deadlines[i];
      // On a shared stream a receive must not delay later transfers. So it waits for no action that ends after the
      // message is made.
      const ReferenceTime* made = shared ? Made(edge[i].op) : nullptr;
      while (made != nullptr && gap > 0) {
        const ReferenceTime* before = times_.Find(computes_[gap - 1]);
        if (before != nullptr && before->end <= made->end) break;
        --gap;
      }
      edge[i].gap = gap;
      edge[i].waits = gap > 0;
    }
  }

  // Moves receives forward until the transfers of each stream are sorted by their moments.
  void OrderStreams() {
    const bool one = program_.getTransferStreams() == ir::TransferStreams::Shared;
    std::map<int, std::vector<Transfer*>> streams;
    auto stream_of = [&](ir::Direction direction) -> std::vector<Transfer*>& {
      return streams[one ? 0 : static_cast<int>(direction)];
    };
    for (Transfer& send : sends_) stream_of(mlir::cast<ir::SendOp>(send.op).getDirection()).push_back(&send);
    for (auto& [key, edge] : edges_) {
      for (Transfer& receive : edge) stream_of(std::get<1>(key)).push_back(&receive);
    }
    for (auto& [stream, transfers] : streams) {
      std::stable_sort(transfers.begin(), transfers.end(),
                       [](const Transfer* a, const Transfer* b) { return a->moment < b->moment; });
      int limit = static_cast<int>(computes_.size());
      for (size_t i = transfers.size(); i-- > 0;) {
        if (mlir::isa<ir::RecvOp>(transfers[i]->op) && transfers[i]->gap > limit) {
          transfers[i]->gap = limit;
          transfers[i]->waits = limit > 0;
        }
        limit = std::min(limit, transfers[i]->gap);
      }
    }
  }

  void Write(bool by_moment, bool sends_first) {
    std::vector<std::vector<Transfer*>> gaps(computes_.size() + 1);
    for (Transfer& send : sends_) gaps[send.gap].push_back(&send);
    for (auto& [key, edge] : edges_) {
      for (Transfer& receive : edge) gaps[receive.gap].push_back(&receive);
    }
    auto key = [&](const Transfer* t) {
      const bool send = mlir::isa<ir::SendOp>(t->op);
      const int order = send ? positions_.lookup(t->op) : t->sequence;
      return std::make_tuple(by_moment ? t->moment : Moment(), send == sends_first ? 0 : 1, order);
    };
    for (size_t g = 0; g < gaps.size(); ++g) {
      std::stable_sort(gaps[g].begin(), gaps[g].end(),
                       [&](const Transfer* a, const Transfer* b) { return key(a) < key(b); });
      mlir::Operation* last = g == 0 ? head_ : computes_[g - 1];
      for (Transfer* transfer : gaps[g]) {
        // Does not move a send whose maker is not in the list.
        if (g == 0 && mlir::isa<ir::SendOp>(transfer->op)) continue;
        if (last != nullptr) {
          transfer->op->moveAfter(last);
        } else {
          transfer->op->moveBefore(&template_.getBody().front(), template_.getBody().front().begin());
        }
        last = transfer->op;
        if (!transfer->waits) continue;
        mlir::cast<ir::RecvOp>(transfer->op).getAfterMutable().append(ir::DoneToken(computes_[g - 1]));
      }
    }
  }

  ir::ProgramOp program_;
  ir::TemplateOp template_;
  const ReferenceTimes& times_;
  const llvm::DenseMap<mlir::Operation*, int>& positions_;
  std::vector<mlir::Operation*> computes_;
  // The last persistent buffer; null if there is none.
  mlir::Operation* head_ = nullptr;
  std::vector<Transfer> sends_;
  std::map<Edge, std::vector<Transfer>> edges_;
};

// Groups neighboring transfers with the same peer, on all ranks.
class Grouper {
 public:
  Grouper(ir::ProgramOp program, const ReferenceTimes& times)
      : program_(program), times_(times), shared_(program.getTransferStreams() != ir::TransferStreams::PerEdge) {
    for (ir::TemplateOp t : Templates(program)) FindRuns(t);
  }

  // Marks the groups. Drops groups whose transfers cannot be sent together. Dropping one may make another impossible,
  // so this repeats until nothing changes.
  void Write() {
    for (bool changed = true; changed;) {
      llvm::DenseMap<mlir::Operation*, int> group_of;
      for (size_t i = 0; i < runs_.size(); ++i) {
        for (mlir::Operation* op : runs_[i]) group_of[op] = static_cast<int>(i);
      }
      const MessageMoments moments(program_, times_, group_of);
      const size_t before = runs_.size();
      std::erase_if(runs_, [&](const std::vector<mlir::Operation*>& run) {
        return !moments.InTime(run.front()) || (shared_ && moments.DelaysMember(run.front()));
      });
      changed = runs_.size() != before;
    }
    llvm::DenseMap<mlir::Operation*, int> groups;
    for (const std::vector<mlir::Operation*>& run : runs_) {
      const int group = ++groups[run.front()->getParentOp()];
      for (mlir::Operation* op : run) {
        op->setAttr("group", mlir::Builder(op->getContext()).getI32IntegerAttr(group));
      }
    }
  }

 private:
  void FindRuns(ir::TemplateOp t) {
    std::vector<mlir::Operation*> run;
    // The edges that have a message in the run. A run holds at most one message of each edge, because a second one
    // would have to wait for the first.
    std::set<std::pair<bool, Edge>> held;
    mlir::Attribute peer;
    auto close = [&] {
      if (run.size() > 1) runs_.push_back(run);
      run.clear();
      held.clear();
    };
    for (mlir::Operation& op : t.getBody().front()) {
      auto send = mlir::dyn_cast<ir::SendOp>(op);
      auto recv = mlir::dyn_cast<ir::RecvOp>(op);
      if (!send && !recv) {
        close();
        continue;
      }
      mlir::Attribute own_peer = send ? send.getPeer() : recv.getPeer();
      const std::pair<bool, Edge> edge = {static_cast<bool>(send), send ? EdgeOf(send) : EdgeOf(recv)};
      if (own_peer != peer || held.contains(edge)) close();
      peer = own_peer;
      held.insert(edge);
      run.push_back(&op);
    }
    close();
  }

  ir::ProgramOp program_;
  const ReferenceTimes& times_;
  // True if edges share streams. In that case the first ready message of a group delays other messages until the whole
  // group is sent.
  const bool shared_;
  std::vector<std::vector<mlir::Operation*>> runs_;
};

class PlaceReceivesPass : public impl::PlaceReceivesBase<PlaceReceivesPass> {
  void runOnOperation() override {
    ir::ProgramOp program = getOperation();
    const ReferenceTimes times(program);
    // The position of each op before anything is moved.
    llvm::DenseMap<mlir::Operation*, int> positions;
    std::vector<ListPlacer> placers;
    for (ir::TemplateOp t : Templates(program)) {
      for (mlir::Operation& op : t.getBody().front()) positions.try_emplace(&op, positions.size());
    }
    for (ir::TemplateOp t : Templates(program)) placers.emplace_back(program, t, times, positions);
    for (ListPlacer& placer : placers) {
      if (program.getLimit() > 0) {
        placer.PlaceByLimit();
      } else {
        placer.Place();
      }
    }
    // With a limit, the number of buffers for microbatches in flight already limits the sends (weft-plan-memory).
    if (program.getLimit() == 0) {
      const MessageMoments moments(program, times, llvm::DenseMap<mlir::Operation*, int>());
      for (ir::TemplateOp t : Templates(program)) LimitSends(t, times, moments);
    }
    if (program.getGroupTransfers()) Grouper(program, times).Write();
  }

  // Limits the outstanding sends of each edge to `send_buffers`. If that many are outstanding, the compute action that
  // makes the next message waits for the oldest of them.
  void LimitSends(ir::TemplateOp t, const ReferenceTimes& times, const MessageMoments& moments) {
    const size_t window = getOperation().getSendBuffers();
    std::map<Edge, std::vector<ir::SendOp>> edges;
    for (ir::SendOp send : t.getOps<ir::SendOp>()) edges[EdgeOf(send)].push_back(send);
    for (auto& [key, sends] : edges) {
      for (size_t k = window; k < sends.size(); ++k) {
        mlir::Operation* maker = sends[k].getSource().getDefiningOp();
        if (maker == nullptr || !ir::IsCompute(maker)) continue;
        const ReferenceTime* time = times.Find(maker);
        size_t on = k - window + 1;
        while (time != nullptr && on > 0 && moments.MomentOf(sends[on - 1]) > time->start) --on;
        if (on == 0 || !sends[on - 1]->isBeforeInBlock(maker)) continue;
        ir::AfterTokens(maker).append(sends[on - 1].getDone());
      }
    }
  }
};

}  // namespace
}  // namespace weft
