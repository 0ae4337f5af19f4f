#include "compiler/rewrite/guess.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "proto/util/action_kind.h"

namespace weft {
namespace {

bool IsTransfer(const Action& action) { return IsTransfer(action.kind()); }
bool IsCompute(const Action& action) { return !IsMessage(action.kind()); }

// An action, by the index of its template and its index in the template's body.
struct At {
  int t = 0;
  int action = 0;
};

class Guess {
 public:
  explicit Guess(const Program& program) : program_(program) {
    for (int t = 0; t < program.templates_size(); ++t) Read(t);
  }

  std::vector<std::vector<bool>> Run() {
    Cut();
    while (!Close()) {
    }
    return in_;
  }

 private:
  // A message towards the loss: (lane, skip, microbatch, stage that makes it).
  using Message = std::tuple<int, int, int, int>;

  Message MessageOf(const Action& action) const {
    int maker = action.stage();
    if (action.kind() == RECV) maker = action.skip() > 0 ? program_.skips(action.skip() - 1).from_stage() : maker - 1;
    return {action.lane(), action.skip(), action.microbatch(), maker};
  }

  const Action& Get(const At& at) const { return program_.templates(at.t).body(at.action); }

  void Read(int t) {
    const Template& proto = program_.templates(t);
    forwards_.emplace_back();
    place_.emplace_back(proto.body_size(), -1);
    by_id_.emplace_back();
    bool leading = true;
    for (int a = 0; a < proto.body_size(); ++a) {
      const Action& action = proto.body(a);
      by_id_[t][action.id()] = a;
      if (IsTransfer(action) && action.direction() == TOWARDS_LOSS) {
        auto& ends = ends_[MessageOf(action)];
        (action.kind() == SEND ? ends.first : ends.second) = {t, a};
      }
      if (!IsCompute(action)) continue;
      leading = leading && action.kind() == FORWARD;
      if (!leading) continue;
      place_[t][a] = static_cast<int>(forwards_[t].size());
      forwards_[t].push_back(a);
    }
  }

  // Computes `kept_`: the number of leading forwards of each rank that begin no later than the last rank begins.
  void Cut() {
    const int templates = program_.templates_size();
    std::vector<std::vector<int64_t>> start(templates);
    bool moved = true;
    while (moved) {
      moved = false;
      for (int t = 0; t < templates; ++t) {
        while (start[t].size() < forwards_[t].size()) {
          const int64_t time = Start(t, forwards_[t][start[t].size()], start);
          if (time < 0) break;
          start[t].push_back(time);
          moved = true;
        }
      }
    }
    int64_t last = 0;
    for (const std::vector<int64_t>& times : start) {
      if (!times.empty()) last = std::max(last, times[0]);
    }
    for (int t = 0; t < templates; ++t) {
      kept_.push_back(std::upper_bound(start[t].begin(), start[t].end(), last) - start[t].begin());
    }
  }

  // Returns the time at which a forward begins, in units of one forward. Returns -1 if the forward reads a message
  // whose maker is not a leading forward with a known time.
  int64_t Start(int t, int action, const std::vector<std::vector<int64_t>>& start) const {
    int64_t time = start[t].empty() ? 0 : start[t].back() + 1;
    for (const Dependency& dep : program_.templates(t).body(action).deps()) {
      if (dep.distance() != 0) continue;
      const Action& recv = program_.templates(t).body(by_id_[t].at(dep.action()));
      if (recv.kind() != RECV || recv.direction() != TOWARDS_LOSS) continue;
      const At send = ends_.at(MessageOf(recv)).first;
      for (const Dependency& made : Get(send).deps()) {
        const int maker = by_id_[send.t].at(made.action());
        if (made.distance() != 0 || Get({send.t, maker}).kind() != FORWARD) continue;
        const int place = place_[send.t][maker];
        if (place < 0 || place >= static_cast<int>(start[send.t].size())) return -1;
        time = std::max(time, start[send.t][place] + 1);
      }
    }
    return time;
  }

  // Adds to the guess the actions that the kept forwards wait for, the other ends of transfers, and the rest of
  // transfer groups. If that is impossible, keeps fewer forwards and returns false.
  bool Close() {
    in_.clear();
    for (const Template& t : program_.templates()) in_.emplace_back(t.body_size(), false);
    for (int t = 0; t < program_.templates_size(); ++t) {
      for (int f = 0; f < kept_[t]; ++f) {
        if (Add({t, forwards_[t][f]})) continue;
        kept_[t] = f;
        return false;
      }
    }
    return true;
  }

  bool Add(const At& first) {
    std::vector<At> open = {first};
    while (!open.empty()) {
      const At at = open.back();
      open.pop_back();
      if (in_[at.t][at.action]) continue;
      const Action& action = Get(at);
      const bool transfer = IsTransfer(action) && action.direction() == TOWARDS_LOSS;
      const int place = place_[at.t][at.action];
      if (!transfer && (place < 0 || place >= kept_[at.t])) return false;
      in_[at.t][at.action] = true;
      for (const Dependency& dep : action.deps()) {
        if (dep.distance() == 0) open.push_back({at.t, by_id_[at.t].at(dep.action())});
      }
      if (!transfer) continue;
      // The actions of a transfer group are adjacent and run together.
      for (const int next : {at.action - 1, at.action + 1}) {
        if (action.transfer_group() != 0 && next >= 0 && next < program_.templates(at.t).body_size() &&
            IsTransfer(Get({at.t, next})) && Get({at.t, next}).transfer_group() == action.transfer_group()) {
          open.push_back({at.t, next});
        }
      }
      const auto& [send, recv] = ends_.at(MessageOf(action));
      open.push_back(action.kind() == SEND ? recv : send);
    }
    return true;
  }

  const Program& program_;
  // For each template: `forwards_` lists the leading forwards (those before anything else is computed) in order.
  // `place_` maps each action to its place in `forwards_`, or to -1.
  std::vector<std::vector<int>> forwards_, place_;
  std::vector<std::map<int, int>> by_id_;
  // The SEND and the RECV of each message.
  std::map<Message, std::pair<At, At>> ends_;
  // For each template: the number of leading forwards that are in the guess.
  std::vector<int64_t> kept_;
  std::vector<std::vector<bool>> in_;
};

}  // namespace

std::vector<std::vector<bool>> GuessOf(const Program& program) { return Guess(program).Run(); }

}  // namespace weft
