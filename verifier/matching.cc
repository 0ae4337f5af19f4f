#include "verifier/matching.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"

namespace weft::verify {
namespace {

constexpr const char* kListNames[] = {"prologue", "body", "epilogue"};

class Matcher {
 public:
  Matcher(const Index& index, Findings* findings) : index_(index), findings_(findings) {
    matching_.of.reserve(index.role_template.size());
    for (int t : index.role_template) matching_.of.emplace_back(index.templates[t].actions.size(), -1);
  }

  Matching Run() {
    Gather();
    MatchTransfers();
    MatchCollectives();
    return std::move(matching_);
  }

 private:
  struct Link {
    std::vector<int> sends, recvs;  // Indices of actions.
  };
  // The collectives of one stream in one list, as (action, part); part -1 = the action itself.
  using Sequence = std::vector<std::pair<int, int>>;
  // (sender, receiver, lane, direction, skip, list)
  using LinkKey = std::tuple<int, int, int, int, int, int>;
  struct Communicator {
    std::map<int, Sequence> members;  // Role -> its collectives.
  };
  // (first member of the group, stream key, list)
  using GroupKey = std::tuple<int, std::string, int>;

  const ActionRef& Ref(int role, int action) const {
    return index_.templates[index_.role_template[role]].actions[action];
  }
  const Template& TemplateOf(int role) const { return *index_.templates[index_.role_template[role]].t; }
  std::string Name(int role, int action) const { return Describe(TemplateOf(role), *Ref(role, action).action); }
  const Step& StepOf(int role, std::pair<int, int> at) const {
    const int segment = Ref(role, at.first).action->segment();
    return index_.program->segments(segment).steps(index_.segments[segment].parts[at.second].first_step);
  }
  std::string Name(int role, std::pair<int, int> at) const {
    const std::string action = Name(role, at.first);
    return at.second < 0 ? action : absl::StrCat(action, ", step '", StepOf(role, at).name(), "'");
  }
  const Group& GroupOf(int role, std::pair<int, int> at) const {
    return at.second < 0 ? Ref(role, at.first).action->group() : StepOf(role, at).collective().group();
  }

  void Gather() {
    for (int role = 0; role < static_cast<int>(index_.role_template.size()); ++role) {
      const TemplateIndex& ti = index_.templates[index_.role_template[role]];
      struct Seen {
        std::string key;
        int leader = -1;
        bool alone = false;  // All members are of this role, at one place of one list.
      };
      std::vector<Seen> seen(ti.streams);
      const auto join = [&](int stream, List list, std::pair<int, int> at) {
        Seen& own = seen[stream];
        if (own.leader < 0) {
          const Group& group = GroupOf(role, at);
          const Purpose purpose =
              at.second < 0 ? Ref(role, at.first).action->purpose() : StepOf(role, at).collective().purpose();
          own = {CommunicatorKey(*index_.program, group, purpose), Leader(role, group),
                 index_.GroupRoles(role, group).size() == 1};
        }
        if (own.alone && at.second >= 0) return;
        communicators_[{own.leader, own.key, list}].members[role].push_back(at);
      };
      for (int a = 0; a < static_cast<int>(ti.actions.size()); ++a) {
        const Action& action = *ti.actions[a].action;
        const List list = ti.actions[a].list;
        if (IsTransfer(action.kind())) {
          const int peer = index_.PeerRole(role, action.peer());
          const bool send = action.kind() == SEND;
          Link& link =
              links_[{send ? role : peer, send ? peer : role, action.lane(), action.direction(), action.skip(), list}];
          (send ? link.sends : link.recvs).push_back(a);
        } else if (IsCollective(action.kind())) {
          join(ti.actions[a].stream, list, {a, -1});
        } else {
          const SegmentUse& segment = index_.segments[action.segment()];
          if (segment.communicators.empty()) continue;
          for (int p = 0; p < static_cast<int>(segment.parts.size()); ++p) {
            if (IsCollective(segment.parts[p])) join(ti.StreamOf(action.segment(), segment.parts[p]), list, {a, p});
          }
        }
      }
    }
  }

  // Returns the first role of the group that contains `role`. All members of the group have the same leader.
  int Leader(int role, const Group& group) const {
    for (const AxisSubset& subset : group.axes()) {
      const int position = index_.PinnedPosition(index_.AxisIndex(subset.axis()));
      if (position >= 0)
        role = index_.WithCoordinate(
            role, position,
            SubsetCoordinates(subset, index_.AxisSize(subset.axis()), index_.RoleCoordinate(role, position))[0]);
    }
    return role;
  }

  void Join(const Rendezvous& members) {
    for (const RoleAction& member : members) {
      matching_.of[member.role][member.action] = static_cast<int>(matching_.rendezvous.size());
    }
    matching_.rendezvous.push_back(members);
  }

  void MatchTransfers() {
    for (const auto& [key, link] : links_) {
      if (findings_->full()) return;
      const auto& [sender, receiver, lane, direction, skip, list] = key;
      const size_t n = std::min(link.sends.size(), link.recvs.size());
      bool paired = true;
      for (size_t i = 0; i < n; ++i) {
        paired = paired && CheckPair(sender, link.sends[i], receiver, link.recvs[i]);
        Join({{sender, link.sends[i]}, {receiver, link.recvs[i]}});
      }
      if (link.sends.size() > n && paired) {
        Unmatched(Name(sender, link.sends[n]), "RECV", TemplateOf(receiver), n, link.sends.size(), list);
      }
      if (link.recvs.size() > n && paired) {
        Unmatched(Name(receiver, link.recvs[n]), "SEND", TemplateOf(sender), n, link.recvs.size(), list);
      }
    }
  }

  void Unmatched(const std::string& action, const char* want, const Template& partner, size_t has, size_t needs,
                 int list) {
    findings_->Add("P4.matching", action, ": has no ", want, "; template '", partner.name(), "' has ", has,
                   " on this link in its ", kListNames[list], ", but ", needs, " are needed");
  }

  bool CheckPair(int sender, int send, int receiver, int recv) {
    const Action& a = *Ref(sender, send).action;
    const Action& b = *Ref(receiver, recv).action;
    // Several roles may share this pair of actions. One check and one finding are enough.
    if (!pairs_.insert({&a, &b}).second) return true;
    const auto bad = [&](const char* rule, const char* what, const auto& x, const auto& y) {
      findings_->Add(rule, Name(sender, send), " is received by ", Name(receiver, recv), ", but their ", what,
                     " differ: ", x, " and ", y);
      return false;
    };
    if (a.microbatch() != b.microbatch()) return bad("P4.microbatch", "microbatches", a.microbatch(), b.microbatch());
    if (Width(a) != Width(b)) return bad("P4.microbatch", "widths", Width(a), Width(b));
    // For a skip edge, an earlier check has compared the stage of each end with the edge.
    if (a.skip() == 0 && b.stage() != a.stage() + (a.direction() == TOWARDS_LOSS ? 1 : -1)) {
      return bad("P4.stage", "stages, which must be neighbors,", a.stage(), b.stage());
    }
    const Buffer& x = TemplateOf(sender).buffers(a.sources(0));
    const Buffer& y = TemplateOf(receiver).buffers(b.destinations(0));
    if (x.dtype() != y.dtype()) return bad("P4.dtype", "dtypes", DTypeName(x.dtype()), DTypeName(y.dtype()));
    if (!std::equal(x.shape().begin(), x.shape().end(), y.shape().begin(), y.shape().end())) {
      return bad("P4.shape", "shapes", absl::StrCat("[", absl::StrJoin(x.shape(), ","), "]"),
                 absl::StrCat("[", absl::StrJoin(y.shape(), ","), "]"));
    }
    return true;
  }

  void MatchCollectives() {
    for (const auto& [key, communicator] : communicators_) {
      if (findings_->full()) return;
      const auto& [leader, stream, list] = key;
      const auto& [first_role, first] = *communicator.members.begin();
      const std::vector<int> roles = index_.GroupRoles(leader, GroupOf(first_role, first[0]));
      bool complete = true;
      for (int role : roles) {
        const auto it = communicator.members.find(role);
        const size_t has = it == communicator.members.end() ? 0 : it->second.size();
        if (has == first.size()) continue;
        complete = false;
        const bool fewer = has < first.size();
        findings_->Add("P4.collective", fewer ? Name(first_role, first[has]) : Name(role, it->second[first.size()]),
                       ": template '", TemplateOf(fewer ? role : first_role).name(), "' is a member of its group (",
                       stream, ") and has ", fewer ? has : first.size(), " such collectives in its ", kListNames[list],
                       ", but ", fewer ? first.size() : has, " are needed");
        break;
      }
      if (!complete) continue;
      for (size_t i = 0; i < first.size(); ++i) {
        Rendezvous members;
        for (const auto& [role, sequence] : communicator.members) {
          CheckMember(first_role, first[i], role, sequence[i]);
          members.push_back({role, sequence[i].first, sequence[i].second});
        }
        if (first[i].second < 0) {
          Join(members);
        } else {
          matching_.steps.push_back(members);
        }
      }
    }
  }

  void CheckMember(int first_role, std::pair<int, int> first, int role, std::pair<int, int> at) {
    const Action& a = *Ref(first_role, first.first).action;
    const Action& b = *Ref(role, at.first).action;
    const auto bad = [&](const char* what, const auto& x, const auto& y) {
      findings_->Add("P4.collective", Name(first_role, first), " meets ", Name(role, at), ", but their ", what,
                     " differ: ", x, " and ", y);
    };
    if (first.second >= 0 && at.second >= 0) {
      // If both are the same step of the same segment, all other properties are equal.
      const auto place = [&](const Action& action, int part) {
        return absl::StrCat("segment ", action.segment(), " step ",
                            index_.segments[action.segment()].parts[part].first_step);
      };
      if (a.segment() != b.segment() || first.second != at.second) {
        bad("steps", place(a, first.second), place(b, at.second));
      }
      return;
    }
    if ((&a == &b && first == at) || !pairs_.insert({&a, &b}).second) return;
    const auto kind = [&](int of, std::pair<int, int> member) {
      return member.second < 0 ? ActionKind_Name(Ref(of, member.first).action->kind())
                               : Kernel_Name(StepOf(of, member).kernel());
    };
    if (kind(first_role, first) != kind(role, at)) return bad("kinds", kind(first_role, first), kind(role, at));
    if (a.algorithm() != b.algorithm()) return bad("algorithms", a.algorithm(), b.algorithm());
    if (a.sources_size() != b.sources_size()) return bad("numbers of sources", a.sources_size(), b.sources_size());
    for (int i = 0; i < a.sources_size(); ++i) {
      const Buffer& x = TemplateOf(first_role).buffers(a.sources(i));
      const Buffer& y = TemplateOf(role).buffers(b.sources(i));
      if (x.dtype() != y.dtype()) return bad("dtypes", DTypeName(x.dtype()), DTypeName(y.dtype()));
      if (x.bytes() != y.bytes()) return bad("bytes", x.bytes(), y.bytes());
    }
  }

  const Index& index_;
  Findings* findings_;
  Matching matching_;
  std::map<LinkKey, Link> links_;
  std::map<GroupKey, Communicator> communicators_;
  std::set<std::pair<const Action*, const Action*>> pairs_;
};

}  // namespace

Matching CheckMatching(const Index& index, Findings* findings) { return Matcher(index, findings).Run(); }

}  // namespace weft::verify
