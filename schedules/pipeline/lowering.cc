#include "schedules/pipeline/lowering.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

using Kind = ListActionKind;

// Number of actions that are scheduled as one: 2 for a pair.
size_t UnitLength(const std::vector<ListAction>& list, size_t at) {
  return list[at].paired && at + 1 < list.size() ? 2 : 1;
}

std::vector<ListAction> MergeBackwards(const std::vector<ListAction>& list) {
  std::vector<ListAction> merged;
  for (size_t i = 0; i < list.size(); ++i) {
    merged.push_back(list[i]);
    if (i + 1 == list.size() || list[i].kind != Kind::kBackwardInput) continue;
    const ListAction& next = list[i + 1];
    if (next.kind != Kind::kBackwardWeight || next.stage != list[i].stage || next.microbatch != list[i].microbatch) {
      continue;
    }
    merged.back().kind = Kind::kBackward;
    ++i;
  }
  return merged;
}

std::vector<ListAction> AddUnshards(const std::vector<ListAction>& list, int count) {
  // after[i]: the index of the next action after i that computes the same stage. upcoming: for each stage, the index of
  // the next action that computes it.
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> after(list.size());
  std::map<int, size_t> first;
  for (size_t i = list.size(); i-- > 0;) {
    const auto [entry, fresh] = first.try_emplace(list[i].stage, i);
    after[i] = fresh ? kNever : std::exchange(entry->second, i);
  }
  std::set<size_t> upcoming;
  for (const auto& [stage, at] : first) upcoming.insert(at);

  std::vector<ListAction> result;
  std::set<int> held;
  auto add = [&](Kind kind, int stage) { result.push_back({.kind = kind, .paired = false, .stage = stage}); };
  std::vector<int> wanted;
  for (size_t at = 0; at < list.size();) {
    wanted.clear();
    size_t last = kNever;
    for (size_t position : upcoming) {
      const bool completes_pair = last != kNever && position == last + 1 && list[last].paired;
      if (static_cast<int>(wanted.size()) >= count && !completes_pair) break;
      wanted.push_back(list[position].stage);
      last = position;
    }
    for (auto stage = held.begin(); stage != held.end();) {
      if (std::find(wanted.begin(), wanted.end(), *stage) != wanted.end()) {
        ++stage;
        continue;
      }
      add(Kind::kReshard, *stage);
      stage = held.erase(stage);
    }
    for (int stage : wanted) {
      if (held.insert(stage).second) add(Kind::kUnshard, stage);
    }
    for (const size_t end = at + UnitLength(list, at); at < end; ++at) {
      result.push_back(list[at]);
      upcoming.erase(at);
      if (after[at] != kNever) upcoming.insert(after[at]);
    }
  }
  for (int stage : held) add(Kind::kReshard, stage);
  return result;
}

std::vector<ListAction> AddReduceGradients(const std::vector<ListAction>& list, const ActionLists& lists) {
  std::vector<ListAction> result;
  std::vector<int> gradients(lists.stages());
  for (size_t at = 0; at < list.size();) {
    const size_t end = at + UnitLength(list, at);
    std::vector<int> complete;
    for (; at < end; ++at) {
      result.push_back(list[at]);
      if (list[at].kind != Kind::kBackward && list[at].kind != Kind::kBackwardWeight) continue;
      if (++gradients[list[at].stage] == lists.microbatches) complete.push_back(list[at].stage);
    }
    for (int stage : complete) result.push_back({.kind = Kind::kReduceGradient, .paired = false, .stage = stage});
  }
  return result;
}

std::string Heads(const ActionLists& lists, const std::vector<size_t>& next) {
  std::vector<std::string> heads;
  for (size_t rank = 0; rank < lists.order.size(); ++rank) {
    if (next[rank] == lists.order[rank].size()) continue;
    heads.push_back(absl::StrCat("rank ", rank, " for the input of ", ListActionName(lists.order[rank][next[rank]])));
  }
  return absl::StrJoin(heads, ", ");
}

absl::StatusOr<std::vector<std::vector<ListAction>>> AddTransfers(const ActionLists& lists) {
  std::vector<std::vector<ListAction>> result(lists.order.size());
  std::vector<size_t> next(lists.order.size());
  ActionSet done(lists);
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t rank = 0; rank < lists.order.size(); ++rank) {
      const std::vector<ListAction>& list = lists.order[rank];
      if (next[rank] == list.size()) continue;
      const auto begin = list.begin() + next[rank], end = begin + UnitLength(list, next[rank]);
      if (!std::all_of(begin, end, [&](const ListAction& a) { return InputIsThere(a, lists, done); })) continue;
      result[rank].insert(result[rank].end(), begin, end);
      for (auto action = begin; action != end; ++action) {
        done.Add(*action);
        if (!LeavesRank(*action, lists)) continue;
        const bool forward = action->kind == Kind::kForward;
        result[rank].push_back(
            {forward ? Kind::kSendForward : Kind::kSendBackward, false, action->stage, action->microbatch});
        const ListAction receive = {forward ? Kind::kReceiveForward : Kind::kReceiveBackward, false,
                                    action->stage + (forward ? 1 : -1), action->microbatch};
        result[lists.rank_of[receive.stage]].push_back(receive);
        done.Add(receive);
      }
      next[rank] += end - begin;
      progress = true;
    }
  }
  const std::string heads = Heads(lists, next);
  if (!heads.empty())
    return absl::InvalidArgumentError(absl::StrCat("deadlock: these ranks wait for each other: ", heads));
  return result;
}

}  // namespace

absl::StatusOr<ActionLists> Lower(const ActionLists& lists, const LoweringOptions& options) {
  ActionLists result = lists;
  for (std::vector<ListAction>& list : result.order) {
    if (options.merge_backwards) list = MergeBackwards(list);
    if (options.unsharded_stages > 0) list = AddUnshards(list, options.unsharded_stages);
    if (options.reduce_gradients) list = AddReduceGradients(list, lists);
  }
  if (!options.transfers) return result;
  absl::StatusOr<std::vector<std::vector<ListAction>>> order = AddTransfers(result);
  if (!order.ok()) return order.status();
  result.order = *std::move(order);
  return result;
}

absl::StatusOr<int64_t> CountUnitSteps(const ActionLists& lists) {
  ActionSet done(lists);
  auto ready = [&](const ListAction& a) {
    switch (a.kind) {
      case Kind::kSendForward:
        return done.Has(Kind::kForward, a.stage, a.microbatch);
      case Kind::kSendBackward:
        return done.Has(Kind::kBackward, a.stage, a.microbatch) ||
               done.Has(Kind::kBackwardInput, a.stage, a.microbatch);
      case Kind::kReceiveForward:
        return done.Has(Kind::kSendForward, a.stage - 1, a.microbatch);
      case Kind::kReceiveBackward:
        return done.Has(Kind::kSendBackward, a.stage + 1, a.microbatch);
      default:
        return InputIsThere(a, lists, done);
    }
  };
  std::vector<size_t> next(lists.order.size());
  // Runs the rank's next action or pair. Returns false if the action or pair cannot run yet.
  auto step = [&](size_t rank) {
    const std::vector<ListAction>& list = lists.order[rank];
    const size_t end = next[rank] + UnitLength(list, next[rank]);
    for (size_t i = next[rank]; i < end; ++i) {
      if (!ready(list[i])) return false;
    }
    for (; next[rank] < end; ++next[rank]) done.Add(list[next[rank]]);
    return true;
  };
  for (int64_t rounds = 0;; ++rounds) {
    bool left = false, progress = false;
    std::vector<size_t> waiting;
    for (size_t rank = 0; rank < lists.order.size(); ++rank) {
      if (next[rank] == lists.order[rank].size()) continue;
      left = true;
      if (step(rank)) {
        progress = true;
      } else {
        waiting.push_back(rank);
      }
    }
    if (!left) return rounds;
    for (size_t rank : waiting) step(rank);
    if (!progress) {
      return absl::InvalidArgumentError(
          absl::StrCat("deadlock: these ranks wait for each other: ", Heads(lists, next)));
    }
  }
}

}  // namespace weft
