#include "compiler/rewrite/replan_memory.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/memory/arena.h"
#include "compiler/memory/repetition_order.h"
#include "proto/edit/program_edit.h"
#include "proto/util/status.h"

namespace weft {
namespace {

// Index of the compute stream in RepetitionOrder.
constexpr int kComputeStream = 0;

// Returns a text that identifies the stream of an action: actions with equal texts share a stream.
std::string StreamOf(const Action& action) {
  if (IsCopy(action.kind())) return ActionKind_Name(action.kind());
  Action key;
  if (IsTransfer(action.kind())) {
    key.set_kind(action.kind());
    *key.mutable_peer() = action.peer();
    key.set_direction(action.direction());
    key.set_lane(action.lane());
    key.set_skip(action.skip());
  } else {
    *key.mutable_group() = action.group();
    key.set_purpose(action.purpose());
  }
  return key.SerializeAsString();
}

class Planner {
 public:
  Planner(const Program& program, Template* t) : program_(program), t_(*t) {}

  absl::Status Run() {
    OrderActions();
    FindLives();
    WEFT_RETURN_IF_ERROR(Place(DEVICE));
    return Place(HOST);
  }

 private:
  // Indices of the action that first writes the buffer and of the action that releases it.
  struct Life {
    int writer = -1, release = -1;
  };

  // True if all steps of the action are on the compute stream, so that the action is finished when its compute steps
  // are.
  bool ComputesOnly(const Action& action) const {
    const auto& steps = program_.segments(action.segment()).steps();
    return std::all_of(steps.begin(), steps.end(), [](const Step& step) { return step.stream() == COMPUTE; });
  }

  // The compute stream orders two neighboring actions that only compute. If one of them has collectives in its segment,
  // a wait orders them (plan_memory.cc). All of these links are needed: they order an action after everything before
  // the action that it waits for.
  void OrderNeighbors() {
    for (size_t i = 0; i < computes_.size(); ++i) {
      const int before = computes_[i == 0 ? computes_.size() - 1 : i - 1], after = computes_[i];
      if (ComputesOnly(t_.body(before)) && ComputesOnly(t_.body(after))) order_.Given(before, after, i == 0 ? 1 : 0);
    }
  }

  void OrderActions() {
    order_.AddStream(std::all_of(t_.body().begin(), t_.body().end(), [&](const Action& action) {
      return IsMessage(action.kind()) || IsCopy(action.kind()) || ComputesOnly(action);
    }));
    std::map<std::string, int> streams;
    std::map<int, int> index;
    for (int a = 0; a < t_.body_size(); ++a) {
      const Action& action = t_.body(a);
      index[action.id()] = a;
      if (!IsMessage(action.kind()) && !IsCopy(action.kind())) {
        order_.AddAction(kComputeStream);
        computes_.push_back(a);
        continue;
      }
      const auto [stream, fresh] = streams.try_emplace(StreamOf(action), 0);
      if (fresh) stream->second = order_.AddStream(action.kind() == SEND || !IsMessage(action.kind()));
      order_.AddAction(stream->second);
    }
    for (int a = 0; a < t_.body_size(); ++a) {
      for (const Dependency& dep : t_.body(a).deps()) {
        const int on = index.at(dep.action());
        if (dep.distance() == 1 || (dep.distance() == 0 && on < a)) order_.Given(on, a, dep.distance());
      }
    }
    OrderNeighbors();
    order_.Resolve();
  }

  void FindLives() {
    lives_.resize(t_.buffers_size());
    const auto write = [&](int b, int a) {
      if (lives_[b].writer < 0) lives_[b].writer = a;
    };
    for (int a = 0; a < t_.body_size(); ++a) {
      const Action& action = t_.body(a);
      for (int o = 0; o < action.operands_size(); ++o) {
        if (program_.segments(action.segment()).operands(o).access() != READ) write(action.operands(o), a);
      }
      for (int b : action.destinations()) write(b, a);
      for (int b : action.releases()) lives_[b].release = a;
    }
  }

  // Moments of the compute stream: 2c is its c-th action, 2c + 1 the gap after that action (plan_memory.cc).
  int64_t First(int action) const {
    if (order_.Stream(action) == kComputeStream) return 2 * int64_t{order_.Index(action)};
    return 2 * int64_t{order_.Finished(action, kComputeStream)} - 1;
  }
  int64_t Last(int action) const {
    const int stream = order_.Stream(action);
    if (stream == kComputeStream) return 2 * int64_t{order_.Index(action)};
    const auto knows = std::partition_point(computes_.begin(), computes_.end(), [&](int compute) {
      return order_.Finished(compute, stream) <= order_.Index(action);
    });
    return 2 * int64_t{knows - computes_.begin()} - 1;
  }

  absl::Status Place(weft::Place place) {
    int64_t base = 0;
    std::vector<int> buffers;
    std::vector<ArenaItem> items;
    for (int b = 0; b < t_.buffers_size(); ++b) {
      const Buffer& buffer = t_.buffers(b);
      if (buffer.place() != place) continue;
      if (buffer.persistent()) {
        base = std::max(base,
                        (buffer.offset() + buffer.bytes() + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment);
        continue;
      }
      const Life& life = lives_[b];
      if (life.writer < 0 || life.release < 0) {
        return absl::InternalError(absl::StrCat("template ", t_.name(), ": buffer ", buffer.name(), " has no life"));
      }
      ArenaItem item{buffer.bytes(), First(life.writer), Last(life.release)};
      item.last = std::max(item.last, item.first);
      buffers.push_back(b);
      items.push_back(item);
    }
    WEFT_ASSIGN_OR_RETURN(const Arena arena, PlanArenaOfRank(items, base));
    for (size_t i = 0; i < buffers.size(); ++i) t_.mutable_buffers(buffers[i])->set_offset(base + arena.offsets[i]);
    if (place == HOST) {
      t_.set_host_arena_bytes(base + arena.height);
    } else {
      t_.set_device_arena_bytes(base + arena.height);
    }
    return absl::OkStatus();
  }

  const Program& program_;
  Template& t_;
  RepetitionOrder order_;
  std::vector<int> computes_;
  std::vector<Life> lives_;
};

}  // namespace

absl::Status ReplanTransients(const Program& program, Template* t) { return Planner(program, t).Run(); }

}  // namespace weft
