// Decides where every buffer lies, when it dies, and which waits make the reuse of its bytes safe for any timing (rule
// P7).
//
// Lifetimes follow def-use chains: from the action that defines a buffer to the last compute action that reads it, or
// to its send if nothing computes with it afterwards. compiler/rank/buffer_offsets.h counts time in compute actions, so
// two buffers whose intervals do not overlap may share bytes with no further wait. These waits make intervals end:
//   - compute waits for sends of the buffers that it needs again (weft-place-receives);
//   - the last compute action waits for sends that nothing else waits for. If other ranks may need that action for the
//     send to finish, the next repetition waits instead (message_moments.h orders the actions of all ranks);
//   - the first recv of an edge waits for the last compute action of the previous repetition;
//   - if a collective after that action ends the life of a buffer, the first recvs and the first compute action wait
//     for the collective.
//
// If a program chooses its order while running (rule P6), time cannot be counted in this way: its forwards and its
// backwards are two lists that are ordered only by their waits. In such a program each kind of buffer has `limit`
// places, one per microbatch that may be in flight. The writer of the i-th buffer of a kind waits for the release of
// the (i - limit)-th. Workspaces need one place, because each list runs one action at a time.
//
// Collectives in segments run on streams of their own, so an action may end after its compute. An action with such
// collectives waits for the compute action before it, and the next compute action waits for it. Detached steps may run
// on beyond that. They count as a separate action after their action (its *tail*), which is finished when both are. To
// wait for the tail is to wait with `detached` (rule P2). Tails of one segment add to gradients in the order of their
// stream, without waits.
//
// Persistent buffers never share bytes. Conflicting accesses to them are ordered by waits unless streams order them.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/memory/repetition_order.h"
#include "compiler/rank/buffer_offsets.h"
#include "compiler/rank/message_moments.h"
#include "compiler/rank/persistent_order.h"
#include "compiler/rank/rank_passes.h"
#include "compiler/rank/rank_util.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft {

#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/rank/rank_passes.h.inc"

namespace {

class TemplatePlanner {
 public:
  // `times` and `moments` may be null if no compute action of a microbatch waits for a send. `quick` is the option
  // `quick` of the pass.
  TemplatePlanner(ir::ProgramOp program, ir::TemplateOp t, const ReferenceTimes* times, const MessageMoments* moments,
                  bool quick)
      : quick_(quick),
        program_(program),
        times_(times),
        moments_(moments),
        template_(t),
        dynamic_(program.getComputeOrder() != ir::ComputeOrder::StaticOrder),
        builder_(t.getContext()) {
    for (mlir::Operation* op : Actions(t)) {
      actions_.push_back(op);
      is_tail_.push_back(false);
      if (!ir::IsCompute(op)) continue;
      collectives_ |= SignatureOf(op).getCollectives();
      if (!SignatureOf(op).hasDetached()) continue;
      actions_.push_back(op);
      is_tail_.push_back(true);
    }
  }

  mlir::LogicalResult Plan() {
    if (dynamic_ && collectives_) {
      return template_.emitOpError(
          "[memory_c3] chooses the order of forwards and backwards while it runs (rule P6), but they hold collectives; "
          "use a schedule with a static order");
    }
    AddActions();
    OrderComputeActions();
    FindTransients();
    RequireDataOrder();
    RequirePersistentOrder(actions_, is_tail_, &order_);
    if (dynamic_) ShareByLimit();
    RequireRepetitionOrder();
    order_.Resolve();
    const TemplateOrder known{actions_, computes_, dynamic_, order_};
    if (mlir::failed(AssignOffsets(template_, known, transients_, quick_))) return mlir::failure();
    WriteWaits();
    WriteReleases();
    return mlir::success();
  }

 private:
  void AddActions() {
    order_.AddStream(!collectives_);
    if (dynamic_) {
      order_.AddStream(true);
      order_.AddStream(true);
      by_stream_.resize(kStepStream + 1);
    }
    std::map<std::string, int> streams;
    int tails = -1;
    for (size_t i = 0; i < actions_.size(); ++i) {
      mlir::Operation* op = actions_[i];
      if (is_tail_[i]) {
        if (tails < 0) {
          tails = order_.AddStream(false);
          by_stream_.resize(tails + 1);
        }
        order_.AddAction(tails);
        order_.Given(static_cast<int>(i) - 1, static_cast<int>(i));
        continue;
      }
      index_[op] = static_cast<int>(i);
      if (ir::IsCompute(op)) {
        order_.AddAction(ComputeStreamOf(op));
        computes_.push_back(static_cast<int>(i));
        continue;
      }
      // The key of a transfer's stream: (peer, direction, lane, skip, send or recv). Edges that share a stream count as
      // separate streams here, which is safe: sharing only adds order. The key of a collective's stream: (group,
      // purpose).
      std::string key;
      llvm::raw_string_ostream text(key);
      llvm::TypeSwitch<mlir::Operation*>(op)
          .Case<ir::SendOp, ir::RecvOp>([&](auto transfer) {
            text << op->getName() << transfer.getPeer() << stringifyDirection(transfer.getDirection())
                 << transfer.getLane() << " " << transfer.getSkip();
          })
          .Default([&](mlir::Operation* collective) {
            const ir::CollectiveView view = ir::ViewOf(collective);
            text << view.over << stringifyPurpose(view.purpose);
          });
      auto [stream, added] = streams.try_emplace(text.str(), 0);
      if (added) {
        stream->second = order_.AddStream(mlir::isa<ir::SendOp>(op));
        by_stream_.resize(stream->second + 1);
      }
      order_.AddAction(stream->second);
      by_stream_[stream->second].push_back(static_cast<int>(i));
    }
  }

  // With collectives in segments, the order on the compute stream does not imply that earlier actions are finished.
  void OrderComputeActions() {
    if (!collectives_ || computes_.empty()) return;
    auto has_collectives = [&](int compute) { return SignatureOf(actions_[compute]).getCollectives(); };
    for (size_t i = 0; i < computes_.size(); ++i) {
      const int before = computes_[i == 0 ? computes_.size() - 1 : i - 1], after = computes_[i];
      if (has_collectives(before) || has_collectives(after)) {
        order_.Require(before, after, i == 0 ? 1 : 0);
      } else {
        order_.Given(before, after, i == 0 ? 1 : 0);
      }
    }
  }

  int ComputeStreamOf(mlir::Operation* op) const {
    if (!dynamic_ || mlir::isa<ir::ForwardOp>(op)) return kComputeStream;
    return ir::IsMicrobatch(op) ? kBackwardStream : kStepStream;
  }

  // True if no rank can block when compute action `compute` waits for `send`, which precedes it in the list. The steps
  // at the end of a list may always wait, because no action of another rank waits for them.
  bool MayWaitFor(int compute, int send) const {
    if (!ir::IsMicrobatch(actions_[compute])) return true;
    if (times_ == nullptr) return true;
    const ReferenceTime* time = times_->Find(actions_[compute]);
    return time == nullptr || moments_->MomentOf(actions_[send]) <= time->start;
  }

  // The action that releases a buffer: its last user in the list, or a later compute action that may wait for all sends
  // of the buffer.
  int ReleaserOf(mlir::Value buffer, int last_user) const {
    auto may_release = [&](int action) {
      return llvm::all_of(buffer.getUsers(), [&](mlir::Operation* user) {
        auto found = index_.find(user);
        if (found == index_.end() || found->second == action || !mlir::isa<ir::SendOp>(user)) return true;
        if (ir::IsCompute(actions_[action])) return MayWaitFor(action, found->second);
        return moments_ == nullptr || moments_->MomentOf(user) <= moments_->MomentOf(actions_[action]);
      });
    };
    if (may_release(last_user)) return last_user;
    for (int action : computes_) {
      if (action > last_user && may_release(action)) return action;
    }
    return last_user;
  }

  // Collects the non-persistent buffers in the order of their writers.
  void FindTransients() {
    for (int i = 0; i < static_cast<int>(actions_.size()); ++i) {
      if (is_tail_[i]) continue;
      for (mlir::Value result : actions_[i]->getResults()) {
        if (!mlir::isa<ir::BufferType>(result.getType())) continue;
        Transient transient{result, i, i};
        for (mlir::Operation* user : result.getUsers()) {
          auto found = index_.find(user);
          if (found != index_.end()) transient.last = std::max(transient.last, found->second);
        }
        transient.last = ReleaserOf(result, transient.last);
        // The last action releases the buffer, so all other users must be finished before it.
        for (mlir::Operation* user : result.getUsers()) {
          auto found = index_.find(user);
          if (found != index_.end() && found->second < transient.last) order_.Require(found->second, transient.last);
        }
        transients_.push_back(transient);
      }
    }
  }

  // Requires that users of buffers follow their writers. Also requires the waits that earlier passes asked for.
  void RequireDataOrder() {
    for (int i = 0; i < static_cast<int>(actions_.size()); ++i) {
      if (is_tail_[i]) continue;
      for (mlir::Value operand : actions_[i]->getOperands()) {
        auto detached = operand.getDefiningOp<ir::DetachedOp>();
        auto found = index_.find(detached ? detached.getAction().getDefiningOp() : operand.getDefiningOp());
        if (found == index_.end()) continue;
        const bool tail = detached && is_tail_[found->second + 1];
        order_.Require(found->second + (tail ? 1 : 0), i);
      }
    }
  }

  // Without a static order: each kind of buffer gets as many places as microbatches may be in flight.
  void ShareByLimit() {
    // Transients by kind. Two transients are of one kind if their writers run the same segment or receive from the same
    // edge, and they are the same result of the writer.
    std::map<std::string, std::vector<int>> kinds;
    const int limit = std::max(1, static_cast<int>(program_.getLimit()));
    for (int i = 0; i < static_cast<int>(transients_.size()); ++i) {
      Transient& transient = transients_[i];
      mlir::Operation* writer = actions_[transient.writer];
      auto type = mlir::cast<ir::BufferType>(transient.buffer.getType());
      std::string key;
      llvm::raw_string_ostream text(key);
      text << writer->getName() << " " << mlir::cast<mlir::OpResult>(transient.buffer).getResultNumber() << " " << type;
      if (auto recv = mlir::dyn_cast<ir::RecvOp>(writer)) {
        text << recv.getPeer() << stringifyDirection(recv.getDirection()) << recv.getLane() << " " << recv.getStage()
             << " " << recv.getSkip();
      } else if (ir::IsMicrobatch(writer)) {
        text << writer->getAttr("segment");
      } else {
        continue;
      }
      const size_t places = type.getBufferClass() == ir::BufferClass::Workspace ? 1 : limit;
      std::vector<int>& kind = kinds[text.str()];
      if (kind.size() >= places) {
        const int before = kind[kind.size() - places];
        if (transients_[before].last < transient.writer) {
          transient.reuses = before;
          order_.Require(transients_[before].last, transient.writer);
        }
      }
      kind.push_back(i);
    }
    if (computes_.empty()) return;
    // `step` is the last action so far that is in both queues. Such an action follows all earlier actions of both
    // queues and precedes all later ones.
    int step = -1;
    const int last = computes_.back();
    bool seen[2] = {false, false};
    int latest[2] = {-1, -1};
    for (int i : computes_) {
      const int stream = order_.Stream(i);
      if (stream != kStepStream) {
        if (!seen[stream] && order_.Stream(last) == kStepStream) order_.Given(last, i, 1);
        seen[stream] = true;
        latest[stream] = i;
        if (step >= 0) order_.Given(step, i);
        continue;
      }
      for (int before : latest) {
        if (before >= 0) order_.Given(before, i);
      }
      step = i;
    }
  }

  // Requires that the next repetition reuses the bytes of a buffer only after this repetition has released them.
  void RequireRepetitionOrder() {
    if (computes_.empty()) return;
    const int last = computes_.back();
    // The first compute action; with two queues, the first of each.
    std::vector<int> firsts;
    for (int i : computes_) {
      bool known = llvm::any_of(firsts, [&](int first) { return order_.Stream(first) == order_.Stream(i); });
      if (!known) firsts.push_back(i);
    }
    for (const std::vector<int>& stream : by_stream_) {
      if (stream.empty()) continue;
      if (mlir::isa<ir::SendOp>(actions_[stream.front()])) {
        const int send = stream.back();
        if (send < last && MayWaitFor(last, send)) {
          order_.Require(send, last);
          continue;
        }
        for (int first : firsts) order_.Require(send, first, 1);
        BeforeReceives(send);
      } else if (mlir::isa<ir::RecvOp>(actions_[stream.front()])) {
        order_.Require(last, stream.front(), 1);
      }
    }
    // The last user of a buffer may be a collective after the last compute action (a gather of parameters). It must
    // finish before the next repetition computes or receives.
    for (const Transient& transient : transients_) {
      if (!ir::IsCollective(actions_[transient.last])) continue;
      for (int first : firsts) order_.Require(transient.last, first, 1);
      BeforeReceives(transient.last);
    }
  }

  // Requires that `action` finishes before the receives of the next repetition start.
  void BeforeReceives(int action) {
    for (const std::vector<int>& stream : by_stream_) {
      if (!stream.empty() && mlir::isa<ir::RecvOp>(actions_[stream.front()])) order_.Require(action, stream.front(), 1);
    }
  }

  // True if `after` reads a buffer that `before` makes, which orders them without a token. This does not hold between
  // compute actions if segments have collectives.
  bool ImpliedByOperand(int before, int after) {
    if (is_tail_[before]) return false;
    if (collectives_ && ir::IsCompute(actions_[before]) && ir::IsCompute(actions_[after])) return false;
    return llvm::any_of(actions_[after]->getOperands(), [&](mlir::Value operand) {
      return mlir::isa<ir::BufferType>(operand.getType()) && operand.getDefiningOp() == actions_[before];
    });
  }

  // Writes waits as tokens, except waits that already follow from the flow of buffers.
  void WriteWaits() {
    builder_.setInsertionPointToEnd(&template_.getBody().front());
    for (int i = 0; i < static_cast<int>(actions_.size()); ++i) {
      llvm::SmallVector<mlir::Value> after;
      if (is_tail_[i]) continue;
      for (const RepetitionOrder::Wait& wait : order_.waits(i)) {
        mlir::Value token = is_tail_[wait.on] ? DetachedToken(wait.on) : ir::DoneToken(actions_[wait.on]);
        if (wait.distance == 1) {
          builder_.create<ir::RepeatAfterOp>(template_.getLoc(), ir::DoneToken(actions_[i]), token);
        } else if (!ImpliedByOperand(wait.on, i)) {
          after.push_back(token);
        }
      }
      ir::AfterTokens(actions_[i]).assign(after);
    }
  }

  // The token of the detached steps that `tail` stands for, created on first use.
  mlir::Value DetachedToken(int tail) {
    mlir::Value& token = detached_tokens_[tail];
    if (token) return token;
    mlir::OpBuilder builder(builder_.getContext());
    builder.setInsertionPointAfter(actions_[tail]);
    return token = builder.create<ir::DetachedOp>(template_.getLoc(), ir::TokenType::get(builder.getContext()),
                                                  ir::DoneToken(actions_[tail]));
  }

  void WriteReleases() {
    std::vector<std::vector<mlir::Value>> released(actions_.size());
    for (const Transient& transient : transients_) released[transient.last].push_back(transient.buffer);
    for (size_t i = 0; i < actions_.size(); ++i) {
      builder_.setInsertionPointAfter(actions_[i]);
      for (mlir::Value buffer : released[i]) {
        builder_.create<ir::ReleaseOp>(template_.getLoc(), buffer, ir::DoneToken(actions_[i]));
      }
    }
  }

  const bool quick_;
  ir::ProgramOp program_;
  const ReferenceTimes* times_;
  const MessageMoments* moments_;
  ir::TemplateOp template_;
  // True if the order of compute actions is chosen while running.
  const bool dynamic_;
  // True if segments of some actions have collectives.
  bool collectives_ = false;
  // The actions of the template. An action with detached steps appears twice; the second entry stands for its tail.
  std::vector<mlir::Operation*> actions_;
  std::vector<bool> is_tail_;
  std::map<int, mlir::Value> detached_tokens_;
  mlir::OpBuilder builder_;
  RepetitionOrder order_;
  llvm::DenseMap<mlir::Operation*, int> index_;
  std::vector<int> computes_;
  // The actions of each stream except compute streams and tails.
  std::vector<std::vector<int>> by_stream_;
  std::vector<Transient> transients_;
};

class PlanMemoryPass : public impl::PlanMemoryBase<PlanMemoryPass> {
 public:
  using PlanMemoryBase::PlanMemoryBase;

 private:
  void runOnOperation() override {
    ir::ProgramOp program = getOperation();
    // `times` and `moments` are both computed before this pass adds waits to any template.
    std::optional<ReferenceTimes> times;
    std::optional<MessageMoments> moments;
    if (program.getComputeOrder() == ir::ComputeOrder::StaticOrder && MayWaitInside(program)) {
      times.emplace(program);
      moments = MessageMoments::FromProgram(program, *times);
    }
    for (ir::TemplateOp t : Templates(program)) {
      if (mlir::failed(
              TemplatePlanner(program, t, times ? &*times : nullptr, moments ? &*moments : nullptr, quick).Plan())) {
        return signalPassFailure();
      }
    }
  }

  // True if compute actions of microbatches may have to wait for sends: a list ends with such an action, or a buffer is
  // both sent and used elsewhere, which only skip edges cause.
  static bool MayWaitInside(ir::ProgramOp program) {
    if (program.getSkips() && !program.getSkips()->empty()) return true;
    return llvm::any_of(Templates(program), [](ir::TemplateOp t) {
      for (mlir::Operation& op : llvm::reverse(t.getBody().front())) {
        if (ir::IsCompute(&op)) return ir::IsMicrobatch(&op);
      }
      return false;
    });
  }
};

}  // namespace
}  // namespace weft
