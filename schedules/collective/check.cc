#include "schedules/collective/check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

// Sums as trees. Two trees are equal iff they add the same terms in the same order. Floating-point addition commutes,
// so the two sides of one addition have no order. It does not associate, so the shape of the tree counts.
class Sums {
 public:
  explicit Sums(int members) : members_(members) {
    for (int member = 0; member < members; ++member) nodes_.push_back({member, -1});
  }

  // The contribution of one member.
  int Leaf(int member) const { return member; }

  int Add(int a, int b) {
    const std::pair<int, int> key = std::minmax(a, b);
    auto [it, is_new] = ids_.emplace(key, static_cast<int>(nodes_.size()));
    if (is_new) nodes_.emplace_back(a, b);
    return it->second;
  }

  std::vector<int> Counts(int id) const {
    std::vector<int> counts(members_);
    std::vector<int> open = {id};
    while (!open.empty()) {
      const int next = open.back();
      open.pop_back();
      if (next < members_) {
        ++counts[next];
      } else {
        open.push_back(nodes_[next].first);
        open.push_back(nodes_[next].second);
      }
    }
    return counts;
  }

  std::string Text(int id) const {
    if (id < members_) return absl::StrCat(id);
    return absl::StrCat("(", Text(nodes_[id].first), "+", Text(nodes_[id].second), ")");
  }

 private:
  int members_;
  std::vector<std::pair<int, int>> nodes_;
  std::map<std::pair<int, int>, int> ids_;
};

std::string Name(size_t round, const CollectiveStep& step) {
  return absl::StrCat("round ", round, ", chunk ", step.chunk, " from member ", step.source, " to member ",
                      step.destination, ": ");
}

absl::Status CheckForm(const CollectivePlan& plan) {
  if (plan.members < 1 || plan.chunks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("members = ", plan.members, " and chunks = ", plan.chunks, " must be at least 1"));
  }
  if (plan.kind != CollectiveKind::kAllReduce && plan.chunks != plan.members) {
    return absl::InvalidArgumentError(absl::StrCat(CollectiveKindName(plan.kind), ": chunks = ", plan.chunks,
                                                   "; it must be one for each of ", plan.members, " members"));
  }
  for (size_t round = 0; round < plan.rounds.size(); ++round) {
    const CollectiveStep* previous = nullptr;
    for (const CollectiveStep& step : plan.rounds[round]) {
      if (step.source < 0 || step.source >= plan.members || step.destination < 0 || step.destination >= plan.members) {
        return absl::InvalidArgumentError(absl::StrCat(Name(round, step), "members are 0 to ", plan.members - 1));
      }
      if (step.source == step.destination) {
        return absl::InvalidArgumentError(absl::StrCat(Name(round, step), "a member sends to itself"));
      }
      if (step.chunk < 0 || step.chunk >= plan.chunks) {
        return absl::InvalidArgumentError(absl::StrCat(Name(round, step), "chunks are 0 to ", plan.chunks - 1));
      }
      auto key = [](const CollectiveStep& s) { return std::tuple(s.destination, s.chunk, s.source); };
      if (previous != nullptr) {
        if (key(*previous) >= key(step)) {
          return absl::InvalidArgumentError(
              absl::StrCat(Name(round, step), "steps must be sorted by destination, chunk and source, none twice"));
        }
        const bool same_place = previous->destination == step.destination && previous->chunk == step.chunk;
        if (same_place && (previous->op == CollectiveOp::kCopy || step.op == CollectiveOp::kCopy)) {
          return absl::InvalidArgumentError(
              absl::StrCat(Name(round, step), "a copy must be all that a chunk receives in a round"));
        }
      }
      previous = &step;
    }
  }
  return absl::OkStatus();
}

// The sums that the members hold: held[member][chunk] = id of a sum.
using Held = std::vector<std::vector<int>>;

// Runs a well-formed plan. Returns InvalidArgument if a member uses a chunk that it does not have.
absl::Status Run(const CollectivePlan& plan, Sums& sums, Held& held) {
  constexpr int kNothing = -1;
  const bool gathers = plan.kind == CollectiveKind::kAllGather;
  held.assign(plan.members, std::vector<int>(plan.chunks, kNothing));
  for (int member = 0; member < plan.members; ++member) {
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      if (!gathers || chunk == member) held[member][chunk] = sums.Leaf(member);
    }
  }
  for (size_t r = 0; r < plan.rounds.size(); ++r) {
    const std::vector<CollectiveStep>& round = plan.rounds[r];
    const Held before = held;
    for (size_t i = 0; i < round.size();) {
      const CollectiveStep& first = round[i];
      // The terms whose sum becomes this member's chunk, each by the member that sent it. Unless the chunk is copied,
      // the member's own content is one of the terms.
      std::map<int, int> terms;
      bool copied = false;
      for (; i < round.size() && round[i].destination == first.destination && round[i].chunk == first.chunk; ++i) {
        terms[round[i].source] = before[round[i].source][first.chunk];
        copied = round[i].op == CollectiveOp::kCopy;
      }
      if (!copied) terms[first.destination] = before[first.destination][first.chunk];
      int sum = kNothing;
      for (const auto& [member, term] : terms) {
        if (term == kNothing) {
          return absl::InvalidArgumentError(
              absl::StrCat(Name(r, first), "member ", member, " does not have that chunk yet"));
        }
        sum = sum == kNothing ? term : sums.Add(sum, term);
      }
      held[first.destination][first.chunk] = sum;
    }
  }
  return absl::OkStatus();
}

// True if a collective of this kind defines what `member` holds in `chunk` at the end.
bool Promises(const CollectivePlan& plan, int member, int chunk) {
  return plan.kind != CollectiveKind::kReduceScatter || member == chunk;
}

}  // namespace

absl::Status CheckCollective(const CollectivePlan& plan) {
  if (absl::Status status = CheckForm(plan); !status.ok()) return status;
  Sums sums(plan.members);
  Held held;
  if (absl::Status status = Run(plan, sums, held); !status.ok()) return status;

  // Sums that some member ends with, and whose terms have been checked.
  std::set<int> complete;
  for (int chunk = 0; chunk < plan.chunks; ++chunk) {
    for (int member = 0; member < plan.members; ++member) {
      if (!Promises(plan, member, chunk)) continue;
      if (plan.kind == CollectiveKind::kAllGather) {
        if (held[member][chunk] == sums.Leaf(chunk)) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("member ", member, " does not end with chunk ", chunk, " of member ", chunk));
      }
      if (complete.insert(held[member][chunk]).second) {
        const std::vector<int> counts = sums.Counts(held[member][chunk]);
        for (int other = 0; other < plan.members; ++other) {
          if (counts[other] == 1) continue;
          return absl::InvalidArgumentError(absl::StrCat("member ", member, " ends with the contribution of member ",
                                                         other, " ", counts[other], " times in chunk ", chunk,
                                                         "; expected once"));
        }
      }
      if (plan.kind == CollectiveKind::kAllReduce && held[member][chunk] != held[0][chunk]) {
        return absl::InvalidArgumentError(absl::StrCat("members 0 and ", member, " sum chunk ", chunk,
                                                       " in different orders: ", sums.Text(held[0][chunk]), " and ",
                                                       sums.Text(held[member][chunk])));
      }
    }
  }
  return absl::OkStatus();
}

std::string SumOrder(const CollectivePlan& plan, int member, int chunk) {
  Sums sums(plan.members);
  Held held;
  if (absl::Status status = Run(plan, sums, held); !status.ok()) return std::string(status.message());
  return sums.Text(held[member][chunk]);
}

}  // namespace weft
