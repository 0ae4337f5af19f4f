#include "schedules/pipeline/transfer_check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

using Kind = ListActionKind;

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// Numbers all actions: by rank, then in the order of the rank's list.
class Table {
 public:
  explicit Table(const ActionLists& lists) : lists_(lists) {
    for (size_t rank = 0; rank < lists.order.size(); ++rank) {
      first_.push_back(size());
      for (const ListAction& action : lists.order[rank]) {
        actions_.push_back(&action);
        ranks_.push_back(static_cast<int>(rank));
      }
    }
    at_.assign(size_t{kKinds} * lists.stages() * lists.microbatches, -1);
  }

  int64_t size() const { return static_cast<int64_t>(actions_.size()); }
  const ListAction& operator[](int64_t id) const { return *actions_[id]; }
  int rank(int64_t id) const { return ranks_[id]; }
  // Returns for example "rank 1, action 3 (1SEND_B0)".
  std::string Name(int64_t id) const {
    return absl::StrCat("rank ", ranks_[id], ", action ", id - first_[ranks_[id]] + 1, " (",
                        ListActionName(*actions_[id]), ")");
  }
  // Returns for example "1SEND_B0 (rank 1)".
  std::string ShortName(int64_t id) const {
    return absl::StrCat(ListActionName(*actions_[id]), " (rank ", ranks_[id], ")");
  }

  // Fills the table. Checks that indices are in range, actions are on the right rank, and no action appears twice.
  absl::Status Fill() {
    for (int64_t id = 0; id < size(); ++id) {
      const ListAction& a = *actions_[id];
      if (a.stage < 0 || a.stage >= lists_.stages()) return Refuse(Name(id), ": stages are 0 to ", lists_.stages() - 1);
      if (lists_.rank_of[a.stage] != ranks_[id]) {
        return Refuse(Name(id), ": stage ", a.stage, " is on rank ", lists_.rank_of[a.stage]);
      }
      if (!HasMicrobatch(a.kind)) continue;
      if (a.microbatch < 0 || a.microbatch >= lists_.microbatches) {
        return Refuse(Name(id), ": microbatches are 0 to ", lists_.microbatches - 1);
      }
      int32_t& at = at_[Index(a.kind, a.stage, a.microbatch)];
      if (at >= 0) return Refuse(Name(id), ": is also action ", at - first_[ranks_[id]] + 1);
      at = static_cast<int32_t>(id);
    }
    return absl::OkStatus();
  }

  // The number of the action; -1 if there is none.
  int64_t Find(Kind kind, int stage, int microbatch) const {
    return stage < 0 || stage >= lists_.stages() ? -1 : at_[Index(kind, stage, microbatch)];
  }
  // Returns the number of the whole backward, or of the input gradient if the backward is in halves; -1 if there is
  // neither.
  int64_t FindBackward(int stage, int microbatch) const {
    const int64_t whole = Find(Kind::kBackward, stage, microbatch);
    return whole >= 0 ? whole : Find(Kind::kBackwardInput, stage, microbatch);
  }

 private:
  // The kinds that have a microbatch.
  static constexpr int kKinds = static_cast<int>(Kind::kUnshard);

  size_t Index(Kind kind, int stage, int microbatch) const {
    return (static_cast<size_t>(kind) * lists_.stages() + stage) * lists_.microbatches + microbatch;
  }

  const ActionLists& lists_;
  std::vector<const ListAction*> actions_;
  std::vector<int> ranks_;
  std::vector<int64_t> first_;
  std::vector<int32_t> at_;
};

// Returns the kind and the stage of the action at a transfer's other end.
std::pair<Kind, int> Other(const ListAction& a) {
  switch (a.kind) {
    case Kind::kSendForward:
      return {Kind::kReceiveForward, a.stage + 1};
    case Kind::kReceiveForward:
      return {Kind::kSendForward, a.stage - 1};
    case Kind::kSendBackward:
      return {Kind::kReceiveBackward, a.stage - 1};
    default:
      return {Kind::kSendBackward, a.stage + 1};
  }
}

// Checks that `later`, which reads what `earlier` makes on the same rank, comes after `earlier`.
absl::Status InOrder(const Table& table, int64_t earlier, int64_t later, absl::string_view what) {
  if (earlier < 0) return Refuse(table.Name(later), ": ", what, " is missing");
  if (earlier < later) return absl::OkStatus();
  return Refuse(table.Name(later), ": comes before ", ListActionName(table[earlier]), ", ", what);
}

absl::Status CheckData(const ActionLists& lists, const Table& table) {
  for (int64_t id = 0; id < table.size(); ++id) {
    const ListAction& a = table[id];
    const int s = a.stage, m = a.microbatch;
    if (IsTransfer(a.kind)) {
      const auto [kind, stage] = Other(a);
      if (stage < 0 || stage >= lists.stages()) return Refuse(table.Name(id), ": there is no stage ", stage);
      if (lists.rank_of[stage] == table.rank(id)) {
        return Refuse(table.Name(id), ": stage ", stage, " is on the same rank, which needs no transfer");
      }
      if (table.Find(kind, stage, m) < 0) {
        return Refuse(table.Name(id), ": has no ", ListActionName({kind, false, stage, m}), " on rank ",
                      lists.rank_of[stage]);
      }
    }
    absl::Status status;
    switch (a.kind) {
      case Kind::kSendForward:
        status = InOrder(table, table.Find(Kind::kForward, s, m), id, "which it sends");
        break;
      case Kind::kSendBackward:
        status = InOrder(table, table.FindBackward(s, m), id, "whose input gradient it sends");
        break;
      case Kind::kForward:
        if (s == 0) break;
        status = lists.rank_of[s - 1] == lists.rank_of[s]
                     ? InOrder(table, table.Find(Kind::kForward, s - 1, m), id, "whose output it reads")
                     : InOrder(table, table.Find(Kind::kReceiveForward, s, m), id, "the RECV of its input");
        break;
      case Kind::kBackward:
      case Kind::kBackwardInput:
        status = InOrder(table, table.Find(Kind::kForward, s, m), id, "its forward");
        if (!status.ok() || s + 1 == lists.stages()) break;
        status =
            lists.rank_of[s + 1] == lists.rank_of[s]
                ? InOrder(table, table.FindBackward(s + 1, m), id, "whose input gradient it reads")
                : InOrder(table, table.Find(Kind::kReceiveBackward, s, m), id, "the RECV of its output's gradient");
        break;
      case Kind::kBackwardWeight:
        status = InOrder(table, table.Find(Kind::kBackwardInput, s, m), id, "its input gradient");
        break;
      default:
        break;
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool TowardsLoss(Kind kind) { return kind == Kind::kSendForward || kind == Kind::kReceiveForward; }

// Returns the number of the communicator (0 or 1) that a transfer uses between its rank and its peer.
int CommunicatorOf(const ListAction& a, Communicators communicators) {
  return communicators != Communicators::kOne && TowardsLoss(a.kind) ? 1 : 0;
}

class DeadlockCheck {
 public:
  DeadlockCheck(const ActionLists& lists, const Table& table, const TransferOptions& options)
      : lists_(lists), table_(table), options_(options), parent_(table.size()) {
    std::iota(parent_.begin(), parent_.end(), int64_t{0});
  }

  absl::Status Run() {
    if (absl::Status status = Match(); !status.ok()) return status;
    Connect();
    return FindCycle();
  }

 private:
  // `after` waits for `before`.
  struct Edge {
    int32_t before;
    int32_t after;
  };

  // Returns the graph node of an action: the smallest number among the action and those that run together with it.
  int64_t Node(int64_t id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void Unite(int64_t a, int64_t b) { parent_[std::max(Node(a), Node(b))] = std::min(Node(a), Node(b)); }

  int PeerOf(int64_t id) const { return lists_.rank_of[Other(table_[id]).second]; }

  absl::Status Match() {
    // Sends and receives by (sender, receiver, communicator).
    std::map<std::tuple<int, int, int>, std::pair<std::vector<int64_t>, std::vector<int64_t>>> ends;
    for (int64_t id = 0; id < table_.size(); ++id) {
      const ListAction& a = table_[id];
      if (!IsTransfer(a.kind)) continue;
      const int communicator = CommunicatorOf(a, options_.communicators);
      if (IsSend(a.kind)) {
        ends[{table_.rank(id), PeerOf(id), communicator}].first.push_back(id);
      } else {
        ends[{PeerOf(id), table_.rank(id), communicator}].second.push_back(id);
      }
    }
    for (const auto& [key, both] : ends) {
      const auto& [sends, receives] = both;
      // Both lists have the same length, because each transfer has its partner.
      for (size_t i = 0; i < sends.size(); ++i) {
        const auto [kind, stage] = Other(table_[sends[i]]);
        const ListAction& receive = table_[receives[i]];
        if (receive.kind != kind || receive.stage != stage || receive.microbatch != table_[sends[i]].microbatch) {
          return Refuse("mismatch: transfer ", i + 1, " from rank ", std::get<0>(key), " to rank ", std::get<1>(key),
                        " is ", table_.Name(sends[i]), " at one end and ", table_.Name(receives[i]),
                        " at the other; one communicator matches them in order");
        }
        Unite(sends[i], receives[i]);
      }
    }
    return absl::OkStatus();
  }

  // Returns the key of a transfer's queue on its rank. The transfers of a queue run one after the other, except that
  // those of one group start together.
  std::tuple<int, bool, int> Queue(int64_t id) const {
    const int communicator = CommunicatorOf(table_[id], options_.communicators);
    if (options_.communicators != Communicators::kPerEdge) return {0, false, communicator};
    return {PeerOf(id), IsSend(table_[id].kind), communicator};
  }

  void Connect() {
    for (int64_t id = 0; id + 1 < table_.size(); ++id) {
      if (table_.rank(id) != table_.rank(id + 1)) continue;
      if (table_[id].paired) Unite(id, id + 1);
      if (options_.grouped && IsTransfer(table_[id].kind) && IsTransfer(table_[id + 1].kind)) Unite(id, id + 1);
    }
    int64_t compute = -1;
    std::map<std::tuple<int, bool, int>, int64_t> queues;
    bool in_group = false;
    for (int64_t id = 0; id < table_.size(); ++id) {
      if (id == 0 || table_.rank(id) != table_.rank(id - 1)) {
        compute = -1;
        queues.clear();
      }
      const ListAction& a = table_[id];
      in_group = id > 0 && table_.rank(id) == table_.rank(id - 1) && in_group;
      if (IsTransfer(a.kind)) {
        auto [entry, fresh] = queues.try_emplace(Queue(id), id);
        if (!fresh) {
          // Members of one group start together.
          if (!(options_.grouped && in_group && entry->second >= group_begin_)) Add(entry->second, id);
          entry->second = id;
        }
        if (compute >= 0) Add(compute, id);
        if (!in_group) group_begin_ = id;
        in_group = true;
        continue;
      }
      in_group = false;
      if (!IsCompute(a.kind)) continue;
      const bool second_of_pair = id > 0 && compute == id - 1 && table_[id - 1].paired;
      if (compute >= 0 && !second_of_pair) Add(compute, id);
      compute = id;
      const int64_t receive = a.kind == Kind::kForward ? table_.Find(Kind::kReceiveForward, a.stage, a.microbatch)
                              : a.kind == Kind::kBackwardWeight
                                  ? -1
                                  : table_.Find(Kind::kReceiveBackward, a.stage, a.microbatch);
      if (receive >= 0) Add(receive, id);
    }
  }

  void Add(int64_t before, int64_t after) {
    edges_.push_back({static_cast<int32_t>(before), static_cast<int32_t>(after)});
  }

  // Edges grouped by node: the edges of node i are order[first[i]..first[i + 1]).
  struct Index {
    std::vector<int64_t> first;
    std::vector<int64_t> order;
  };
  // Groups edges by the node that waits, or by the node that it waits for.
  Index IndexEdges(bool by_waiting) {
    Index index = {std::vector<int64_t>(table_.size() + 1), std::vector<int64_t>(edges_.size())};
    auto node = [&](const Edge& edge) { return Node(by_waiting ? edge.after : edge.before); };
    for (const Edge& edge : edges_) ++index.first[node(edge) + 1];
    for (int64_t id = 0; id < table_.size(); ++id) index.first[id + 1] += index.first[id];
    std::vector<int64_t> next = index.first;
    for (size_t i = 0; i < edges_.size(); ++i) index.order[next[node(edges_[i])]++] = static_cast<int64_t>(i);
    return index;
  }

  absl::Status FindCycle() {
    const int64_t n = table_.size();
    std::vector<int> missing(n);
    for (const Edge& edge : edges_) ++missing[Node(edge.after)];
    std::vector<int64_t> done;
    for (int64_t id = 0; id < n; ++id) {
      if (Node(id) == id && missing[id] == 0) done.push_back(id);
    }
    const Index users = IndexEdges(/*by_waiting=*/false);
    for (size_t head = 0; head < done.size(); ++head) {
      for (int64_t i = users.first[done[head]]; i < users.first[done[head] + 1]; ++i) {
        const int64_t user = Node(edges_[users.order[i]].after);
        if (--missing[user] == 0) done.push_back(user);
      }
    }
    int64_t at = 0;
    while (at < n && (Node(at) != at || missing[at] == 0)) ++at;
    if (at == n) return absl::OkStatus();
    // Every remaining node waits for a remaining node, so following these edges must lead to a cycle.
    const Index waits = IndexEdges(/*by_waiting=*/true);
    std::vector<int64_t> seen_at(n, -1);
    std::vector<Edge> path;
    while (seen_at[at] < 0) {
      seen_at[at] = static_cast<int64_t>(path.size());
      for (int64_t i = waits.first[at]; i < waits.first[at + 1]; ++i) {
        const Edge& edge = edges_[waits.order[i]];
        if (missing[Node(edge.before)] == 0) continue;
        path.push_back(edge);
        at = Node(edge.before);
        break;
      }
    }
    path.erase(path.begin(), path.begin() + seen_at[at]);
    // Each node of the path waits for an action of the next node, and the last for an action of the first.
    std::vector<std::string> links;
    for (size_t i = 0; i < path.size(); ++i) {
      const int64_t awaited = path[(i + path.size() - 1) % path.size()].before;
      links.push_back(absl::StrCat(NodeName(path[i].after), AwaitedInNode(path[i].after, awaited), " waits for ",
                                   table_.ShortName(path[i].before)));
    }
    return Refuse("deadlock: ", absl::StrJoin(links, "; "));
  }

  int64_t Partner(int64_t id) const {
    const auto [kind, stage] = Other(table_[id]);
    return table_.Find(kind, stage, table_[id].microbatch);
  }

  // Names the awaited action in the node of `id`, unless NodeName already names it.
  std::string AwaitedInNode(int64_t id, int64_t awaited) const {
    if (awaited == id || (IsTransfer(table_[id].kind) && Partner(id) == awaited)) return "";
    return absl::StrCat(IsTransfer(table_[id].kind) ? ", which starts together with " : ", paired with ",
                        table_.ShortName(awaited), ",");
  }

  // Names the action `id`, which makes its node wait, and the action's partner if it is a transfer.
  std::string NodeName(int64_t id) const {
    if (!IsTransfer(table_[id].kind)) return table_.ShortName(id);
    return absl::StrCat(table_.ShortName(Partner(id)), " with ", table_.ShortName(id));
  }

  const ActionLists& lists_;
  const Table& table_;
  const TransferOptions options_;
  std::vector<int64_t> parent_;
  int64_t group_begin_ = 0;
  std::vector<Edge> edges_;
};

}  // namespace

absl::Status CheckTransfers(const ActionLists& lists, const TransferOptions& options) {
  size_t actions = 0;
  for (const std::vector<ListAction>& list : lists.order) actions += list.size();
  // This limit keeps the numbers of actions within 32 bits. Lowering a schedule of kMaxSlots slots makes fewer actions.
  if (actions > size_t{1} << 30) return Refuse(actions, " actions; allowed: up to ", size_t{1} << 30);
  Table table(lists);
  if (absl::Status status = table.Fill(); !status.ok()) return status;
  if (absl::Status status = CheckData(lists, table); !status.ok()) return status;
  return DeadlockCheck(lists, table, options).Run();
}

}  // namespace weft
