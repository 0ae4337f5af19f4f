#include "executor/run/trace_align.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

// Identifies the partners of a communication action: (kind, lane or purpose, direction, ranks). The i-th events of one
// key on all of its ranks belong together (rule P4). For a transfer, `ranks` is sender, receiver and skip edge.
using Key = std::tuple<int, int, int, std::vector<int64_t>>;

Key KeyOf(const Mesh& mesh, int64_t rank, const Action& action) {
  if (action.kind() == ALL_REDUCE) {
    return {1, static_cast<int>(action.purpose()), 0, GroupMembers(mesh, rank, action.group())};
  }
  const int64_t peer = PeerRank(mesh, rank, action.peer());
  std::vector<int64_t> ranks = {rank, peer};
  if (action.kind() == RECV) std::swap(ranks[0], ranks[1]);
  ranks.push_back(action.skip());
  return {0, action.lane(), static_cast<int>(action.direction()), std::move(ranks)};
}

}  // namespace

void AlignStarts(const Program& program, Trace* trace) {
  // The events of each key on each rank, in order.
  std::map<Key, std::map<int64_t, std::vector<TraceEvent*>>> events;
  for (RankTrace& rank : *trace->mutable_ranks()) {
    const int index = TemplateOfRank(program, rank.rank());
    if (index < 0) continue;
    const Template& t = program.templates(index);
    absl::flat_hash_map<int32_t, const Action*> actions;
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        if (action.kind() == SEND || action.kind() == RECV || action.kind() == ALL_REDUCE) {
          actions[action.id()] = &action;
        }
      }
    }
    for (TraceEvent& event : *rank.mutable_events()) {
      const auto found = actions.find(event.action());
      if (found == actions.end()) continue;
      events[KeyOf(program.mesh(), rank.rank(), *found->second)][rank.rank()].push_back(&event);
    }
  }
  for (auto& [key, by_rank] : events) {
    size_t count = SIZE_MAX;
    for (auto& [rank, list] : by_rank) {
      count = std::min(count, list.size());
      // Members of a transfer group end in any order. Ids ascend in list order, and events that belong together are in
      // the same list.
      std::stable_sort(list.begin(), list.end(), [](const TraceEvent* a, const TraceEvent* b) {
        return std::make_pair(a->repetition(), a->action()) < std::make_pair(b->repetition(), b->action());
      });
    }
    for (size_t i = 0; i < count; ++i) {
      int64_t ready = 0;
      for (const auto& [rank, list] : by_rank) ready = std::max(ready, list[i]->ready_ps());
      for (const auto& [rank, list] : by_rank) {
        list[i]->set_start_ps(std::clamp(ready, list[i]->ready_ps(), list[i]->end_ps()));
      }
    }
  }
}

}  // namespace weft::exec
