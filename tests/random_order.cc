// The dependencies and the lists of a random program.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/random_generator.h"

namespace weft {
namespace random_program {

void Generator::OrderPersistent(TemplateDraft& t) {
  for (int b = 0; b < t.t.buffers_size(); ++b) {
    if (!t.t.buffers(b).persistent() || b == t.detached) continue;
    struct Visit {
      Use use;
      int pass = 0;
    };
    Visit writer = {{-1, false, false}, 0};
    std::vector<Visit> readers;
    const auto visit = [&](const Use& use, int pass) {
      const int draft = use.draft;
      const auto after = [&](const Visit& other) {
        const int on = other.use.draft;
        const bool repeated = t.drafts[on].list == kBody && t.drafts[draft].list == kBody;
        const int distance = repeated ? pass - other.pass : 0;
        // An action waits for itself only across repetitions. The second pass over the body finds the waits within a
        // repetition again, which changes nothing.
        if (on != draft || distance > 0) t.drafts[draft].Wait(on, distance, other.use.detached);
      };
      if (writer.use.draft >= 0) after(writer);
      if (!use.writes) return readers.push_back({use, pass});
      for (const Visit& reader : readers) after(reader);
      readers.clear();
      writer = {use, pass};
    };
    const auto& accesses = t.history[b].accesses;
    const auto pass_over = [&](ListKind list, int pass) {
      for (const Use& use : accesses) {
        if (t.drafts[use.draft].list == list) visit(use, pass);
      }
    };
    pass_over(kPrologue, 0);
    pass_over(kBody, 0);
    pass_over(kBody, 1);
    pass_over(kEpilogue, 1);
  }
}

void Generator::OrderRepetitions(TemplateDraft& t) {
  for (const Slot& slot : t.slots) {
    if (slot.first_writer_in_body >= 0) {
      t.drafts[slot.first_writer_in_body].Wait(slot.last_release_in_body, 1);
    }
  }
}

bool Generator::OneQueue(const Action& a, const Action& b) {
  const auto forward = [](const Action& x) { return x.kind() == FORWARD; };
  const auto backward = [](const Action& x) {
    return x.kind() == BACKWARD || x.kind() == BACKWARD_INPUT || x.kind() == BACKWARD_WEIGHT;
  };
  return !(forward(a) && backward(b)) && !(backward(a) && forward(b));
}

void Generator::ExtraDeps(TemplateDraft& t) {
  const int n = static_cast<int>(t.drafts.size());
  for (int d = 0; d < n; ++d) {
    Draft& draft = t.drafts[d];
    // The order of the compute stream makes some waits unnecessary; drop most of these.
    for (auto it = draft.deps.begin(); it != draft.deps.end();) {
      const Draft& other = t.drafts[it->first.first];
      const bool implied = draft.stream.empty() && other.stream.empty() && draft.one_part && other.one_part &&
                           (program_.compute_order() == STATIC_ORDER || OneQueue(draft.action, other.action));
      it = implied && random_.Chance(0.7) ? draft.deps.erase(it) : std::next(it);
    }
    if (d > 0 && random_.Chance(0.15)) {
      const int on = static_cast<int>(random_.Below(d));
      const Draft& other = t.drafts[on];
      if (other.list == draft.list && (!options_.schedules || other.event < draft.event))
        draft.Wait(on, 0, other.has_detached && random_.Chance(0.5));
    }
    if (draft.list == kBody && random_.Chance(0.1)) {
      const int on = static_cast<int>(random_.Below(n));
      if (t.drafts[on].list == kBody) draft.Wait(on, 1 + static_cast<int>(random_.Below(3)));
    }
  }
}

std::vector<int> Generator::NextOfGroup(const TemplateDraft& t, const std::map<std::string, std::vector<int>>& streams,
                                        int group) {
  std::vector<int> members;
  for (const auto& [name, drafts] : streams) {
    size_t here = 0;
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (t.drafts[drafts[i]].action.transfer_group() != group) continue;
      members.push_back(drafts[i]);
      ++here;
    }
    for (size_t i = 0; i < here; ++i) {
      if (t.drafts[drafts[drafts.size() - 1 - i]].action.transfer_group() != group) return {};
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

void Generator::Emit(TemplateDraft& t) {
  t.t.set_device_arena_bytes(t.arena[DEVICE]);
  t.t.set_host_arena_bytes(t.arena[HOST]);
  std::vector<int> id_of(t.drafts.size(), -1);
  int next_id = static_cast<int>(random_.Below(5));
  std::vector<std::pair<ListKind, int>> order;
  for (const ListKind list : {kPrologue, kBody, kEpilogue}) {
    std::map<std::string, std::vector<int>> streams;
    std::vector<std::string> open;
    for (int d = static_cast<int>(t.drafts.size()) - 1; d >= 0; --d) {
      if (t.drafts[d].list == list) streams[t.drafts[d].stream].push_back(d);
    }
    const bool shuffle = random_.Chance(0.7);
    while (!streams.empty()) {
      auto it = streams.begin();
      if (shuffle) {
        it = std::next(it, random_.Below(static_cast<int64_t>(streams.size())));
      } else {
        it = std::min_element(streams.begin(), streams.end(),
                              [](const auto& a, const auto& b) { return a.second.back() < b.second.back(); });
      }
      // A transfer group is emitted as a whole, when it is next on all of its streams.
      std::vector<int> members;
      while (members.empty()) {
        const int head = t.drafts[it->second.back()].action.transfer_group();
        members = head == 0 ? std::vector<int>{it->second.back()} : NextOfGroup(t, streams, head);
        if (members.empty() && ++it == streams.end()) it = streams.begin();
      }
      for (int d : members) {
        const auto own = streams.find(t.drafts[d].stream);
        own->second.pop_back();
        if (own->second.empty()) streams.erase(own);
        id_of[d] = next_id;
        next_id += 1 + static_cast<int>(random_.Below(2));
        order.emplace_back(list, d);
      }
    }
  }
  for (const auto& [list, d] : order) {
    Draft& draft = t.drafts[d];
    Action& action = list == kPrologue ? *t.t.add_prologue() : list == kBody ? *t.t.add_body() : *t.t.add_epilogue();
    action = draft.action;
    action.set_id(id_of[d]);
    action.set_name(absl::StrCat(ActionKind_Name(action.kind()), " ", id_of[d]));
    for (const auto& [wait, detached] : draft.deps) {
      const auto& [on, distance] = wait;
      Dependency& dep = *action.add_deps();
      dep.set_action(id_of[on]);
      dep.set_distance(distance);
      dep.set_detached(detached);
    }
  }
  *program_.add_templates() = std::move(t.t);
}

}  // namespace random_program
}  // namespace weft
