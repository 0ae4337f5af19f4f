#include "verifier/testing/brute_force.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"

namespace weft {
namespace {

// One step of an action, or an action without steps, in one repetition on one rank.
struct Node {
  int rank = 0;
  int instance = 0;  // Index into instances.
  const Step* step = nullptr;
  int64_t occupancy = 1, latency = 0;
  std::vector<int> previous;     // Must have ended: nodes before it on its streams or queues.
  int unit = -1;                 // For a transfer: its transfer group, or itself.
  bool dynamic = false;          // In a queue: it also waits for a free compute stream.
  std::vector<int> after_nodes;  // Must be finished: steps of the same segment.
  int match = -1;                // For a transfer or collective: index into matches_.
  std::string communicator;      // For a collective.
  bool done = false;
  int64_t ready = 0, start = 0, end = 0, finish = 0;
};

struct Instance {
  int rank = 0;
  const Template* t = nullptr;
  const Action* action = nullptr;
  int copy = 0;
  int first = 0, count = 0;
  std::vector<std::pair<int, bool>> deps;  // (instance, also wait for its detached steps)
};

struct Access {
  int64_t begin = 0, end = 0;  // Bytes of the arena.
  Place place = DEVICE;
  bool write = false;
  int64_t from = 0, to = 0;  // Time.
  int node = 0;
  int buffer = 0;
};

bool Disjoint(int64_t a, int64_t b, int64_t c, int64_t d) { return b <= c || d <= a; }

class Run {
 public:
  Run(const Program& program, int repetitions, uint64_t seed) : p_(program), repetitions_(repetitions), random_(seed) {}

  std::string Check() {
    Expand();
    Match();
    FindPartners();
    if (!Time()) return "deadlock";
    for (int64_t rank = 0; rank < MeshRanks(p_.mesh()); ++rank) {
      const std::string fault = CheckRank(static_cast<int>(rank));
      if (!fault.empty()) return absl::StrCat("rank ", rank, ": ", fault);
    }
    return "";
  }

 private:
  std::string Name(int node) const {
    const Instance& i = instances_[nodes_[node].instance];
    return absl::StrCat("action ", i.action->id(), " '", i.action->name(), "' of copy ", i.copy);
  }

  int64_t Duration() {
    static constexpr int64_t kChoices[] = {1, 2, 7, 50, 1000};
    return kChoices[random_() % 5];
  }

  void Expand() {
    for (int64_t r = 0; r < MeshRanks(p_.mesh()); ++r) {
      const int rank = static_cast<int>(r);
      const Template& t = p_.templates(TemplateOfRank(p_, rank));
      std::map<std::pair<int, int>, int> by_id;  // (action id, copy) -> instance
      // For each stream, its last node, or the nodes of its last transfer group.
      std::map<std::string, std::vector<int>> last;
      const int first_instance = static_cast<int>(instances_.size());
      const auto add_list = [&](const auto& list, int copy) {
        for (int i = 0; i < list.size(); ++i) {
          const Action& action = list.Get(i);
          by_id[{action.id(), copy}] = static_cast<int>(instances_.size());
          Instance instance{rank, &t, &action, copy, static_cast<int>(nodes_.size()), 0, {}};
          const bool transfer = action.kind() == SEND || action.kind() == RECV;
          if (transfer) {
            const bool first = i == 0 || !SameGroup(list.Get(i - 1), action);
            if (first) AddTransfers(rank, list, i, &last);
            instance.first = unit_nodes_.back()[unit_next_++];
            nodes_[instance.first].instance = static_cast<int>(instances_.size());
            instance.count = 1;
            instances_.push_back(instance);
            continue;
          }
          const bool communicates =
              action.kind() == ALL_REDUCE || action.kind() == ALL_GATHER || action.kind() == REDUCE_SCATTER;
          instance.count = communicates ? 1 : p_.segments(action.segment()).steps_size();
          for (int s = 0; s < instance.count; ++s) {
            Node node;
            node.rank = rank;
            node.instance = static_cast<int>(instances_.size());
            node.occupancy = Duration();
            std::vector<std::string> streams;
            if (!communicates) {
              node.step = &p_.segments(action.segment()).steps(s);
              for (int dep : node.step->deps()) node.after_nodes.push_back(instance.first + dep);
              streams = {StreamKind_Name(node.step->stream())};
            }
            if (communicates || node.step->has_collective()) {
              node.communicator =
                  communicates ? Communicator(rank, action.group(), action.purpose())
                               : Communicator(rank, node.step->collective().group(), node.step->collective().purpose());
              streams = {node.communicator};
              node.latency = Duration();
              sequences_[{rank, streams[0]}].push_back(static_cast<int>(nodes_.size()));
            } else {
              if (p_.compute_order() != STATIC_ORDER && node.step->stream() == COMPUTE) {
                node.dynamic = true;
                streams = Queues(action.kind());
              }
            }
            for (const std::string& stream : streams) {
              for (int before : last[stream]) node.previous.push_back(before);
              last[stream] = {static_cast<int>(nodes_.size())};
            }
            nodes_.push_back(node);
          }
          instances_.push_back(instance);
        }
      };
      add_list(t.prologue(), 0);
      for (int k = 1; k <= repetitions_; ++k) add_list(t.body(), k);
      add_list(t.epilogue(), repetitions_ + 1);
      const auto in = [](const auto& list, int id) {
        return std::any_of(list.begin(), list.end(), [&](const Action& a) { return a.id() == id; });
      };
      for (int i = first_instance; i < static_cast<int>(instances_.size()); ++i) {
        for (const Dependency& dep : instances_[i].action->deps()) {
          int copy = instances_[i].copy;
          if (in(t.prologue(), dep.action())) {
            copy = 0;
          } else if (in(t.body(), dep.action())) {
            copy = (copy == repetitions_ + 1 ? repetitions_ : copy) - dep.distance();
            if (copy < 1) continue;
          }
          instances_[i].deps.emplace_back(by_id.at({dep.action(), copy}), dep.detached());
        }
      }
    }
  }

  static bool SameGroup(const Action& a, const Action& b) {
    const auto transfer = [](const Action& x) { return x.kind() == SEND || x.kind() == RECV; };
    return transfer(a) && transfer(b) && a.transfer_group() != 0 && a.transfer_group() == b.transfer_group();
  }

  static std::vector<std::string> Queues(ActionKind kind) {
    if (kind == FORWARD) return {"forwards"};
    if (kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT) return {"backwards"};
    return {"forwards", "backwards"};
  }

  // Adds the nodes of the transfer group that begins with list[first], or of that single transfer.
  template <typename List>
  void AddTransfers(int rank, const List& list, int first, std::map<std::string, std::vector<int>>* last) {
    std::vector<int> members;
    std::set<std::string> streams;
    for (int i = first; i < list.size() && (i == first || SameGroup(list.Get(i - 1), list.Get(i))); ++i) {
      const Action& action = list.Get(i);
      Node node;
      node.rank = rank;
      node.unit = static_cast<int>(unit_nodes_.size());
      node.occupancy = Duration();
      node.latency = action.kind() == SEND ? 0 : Duration();
      members.push_back(static_cast<int>(nodes_.size()));
      sequences_[{rank, Link(rank, action, action.kind() == SEND)}].push_back(members.back());
      nodes_.push_back(node);
      if (p_.transfer_streams() == SHARED) {
        streams.insert("transfers");
      } else if (p_.transfer_streams() == PER_DIRECTION) {
        streams.insert(Direction_Name(action.direction()));
      } else {
        streams.insert(Link(rank, action, action.kind() == SEND));
      }
    }
    std::vector<int> before;
    for (const std::string& stream : streams) {
      std::vector<int>& unit = (*last)[stream];
      before.insert(before.end(), unit.begin(), unit.end());
      unit = members;
    }
    for (int member : members) nodes_[member].previous = before;
    unit_nodes_.push_back(std::move(members));
    unit_next_ = 0;
  }

  std::string Communicator(int rank, const Group& group, Purpose purpose) const {
    std::string key = absl::StrCat("communicator ", purpose);
    for (int64_t member : GroupMembers(p_.mesh(), rank, group)) absl::StrAppend(&key, " ", member);
    return key;
  }

  // Returns the key of a sequence of sends (or receives). The i-th send of a sequence meets the i-th receive of the
  // peer's sequence.
  std::string Link(int rank, const Action& action, bool send) const {
    return absl::StrCat(send ? "send " : "recv ", PeerRank(p_.mesh(), rank, action.peer()), " lane ", action.lane(),
                        " ", action.direction(), " ", action.skip());
  }

  // Matches the i-th send of each sequence with the i-th receive of its peer, and the i-th collective of each stream
  // with the i-th collectives of the other members.
  void Match() {
    for (const auto& [key, list] : sequences_) {
      for (size_t i = 0; i < list.size(); ++i) {
        if (nodes_[list[i]].match >= 0) continue;
        const Action& action = *instances_[nodes_[list[i]].instance].action;
        std::vector<int> members;
        if (const Step* step = nodes_[list[i]].step; !nodes_[list[i]].communicator.empty()) {
          const Group& group = step != nullptr ? step->collective().group() : action.group();
          for (int64_t member : GroupMembers(p_.mesh(), key.first, group)) {
            members.push_back(sequences_.at({static_cast<int>(member), key.second})[i]);
          }
        } else {
          const int peer = static_cast<int>(PeerRank(p_.mesh(), key.first, action.peer()));
          const std::string other = absl::StrCat(action.kind() == SEND ? "recv " : "send ", key.first, " lane ",
                                                 action.lane(), " ", action.direction(), " ", action.skip());
          members = {list[i], sequences_.at({peer, other})[i]};
        }
        for (int member : members) {
          nodes_[member].match = static_cast<int>(matches_.size());
          nodes_[member].occupancy = nodes_[members[0]].occupancy;
        }
        matches_.push_back(members);
      }
    }
  }

  // Sets starts_with_[m] to all nodes that must be ready before match m starts: both ends, the transfers in their
  // groups, and the transfers in the groups of all partners of these.
  void FindPartners() {
    std::vector<std::set<int>> partners(unit_nodes_.size());
    for (const std::vector<int>& members : matches_) {
      for (int a : members) {
        for (int b : members) {
          if (nodes_[a].unit >= 0) partners[nodes_[a].unit].insert(nodes_[b].unit);
        }
      }
    }
    starts_with_.resize(matches_.size());
    for (size_t m = 0; m < matches_.size(); ++m) {
      std::set<int> units;
      for (int a : matches_[m]) {
        if (nodes_[a].unit < 0) continue;
        units.insert(nodes_[a].unit);
        units.insert(partners[nodes_[a].unit].begin(), partners[nodes_[a].unit].end());
      }
      starts_with_[m] = matches_[m];
      for (int unit : units) {
        starts_with_[m].insert(starts_with_[m].end(), unit_nodes_[unit].begin(), unit_nodes_[unit].end());
      }
    }
  }

  // True if everything that the node waits for has happened; `at` is then the earliest time at which it can start.
  bool Ready(int n, int64_t* at) const {
    const Node& node = nodes_[n];
    *at = 0;
    if (node.dynamic) *at = compute_free_.at(node.rank);
    for (int previous : node.previous) {
      if (!nodes_[previous].done) return false;
      *at = std::max(*at, nodes_[previous].end);
    }
    const auto wait = [&](int other) {
      *at = std::max(*at, nodes_[other].finish);
      return nodes_[other].done;
    };
    for (int other : node.after_nodes) {
      if (!wait(other)) return false;
    }
    for (const auto& [dep, detached] : instances_[node.instance].deps) {
      for (int other = instances_[dep].first; other < instances_[dep].first + instances_[dep].count; ++other) {
        const Step* step = nodes_[other].step;
        if (step != nullptr && step->detached() && !detached) continue;
        if (!wait(other)) return false;
      }
    }
    return true;
  }

  // Runs the steps in any possible order. With two queues of compute, the choice is random. Returns false on a
  // deadlock.
  bool Time() {
    compute_free_.assign(MeshRanks(p_.mesh()), 0);
    std::vector<int> left;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) left.push_back(n);
    for (bool progress = true; progress && !left.empty();) {
      progress = false;
      if (p_.compute_order() != STATIC_ORDER) {
        for (size_t i = left.size(); i > 1; --i) std::swap(left[i - 1], left[random_() % i]);
      }
      for (int n : left) {
        if (nodes_[n].done) continue;
        const std::vector<int> alone = {n};
        const int match = nodes_[n].match;
        int64_t start = 0, at = 0;
        const auto ready = [&](int m) {
          const bool ok = nodes_[m].done || Ready(m, &at);
          start = std::max(start, nodes_[m].done ? nodes_[m].ready : at);
          return ok;
        };
        const std::vector<int>& waits = match >= 0 ? starts_with_[match] : alone;
        if (!std::all_of(waits.begin(), waits.end(), ready)) continue;
        for (int m : match >= 0 ? matches_[match] : alone) {
          Ready(m, &nodes_[m].ready);
          nodes_[m].done = true;
          nodes_[m].start = start;
          nodes_[m].end = start + nodes_[m].occupancy;
          nodes_[m].finish = nodes_[m].end + nodes_[m].latency;
          if (nodes_[m].dynamic) compute_free_[nodes_[m].rank] = nodes_[m].end;
        }
        progress = true;
      }
      left.erase(std::remove_if(left.begin(), left.end(), [&](int n) { return nodes_[n].done; }), left.end());
    }
    return left.empty();
  }

  std::vector<Access> Accesses(int rank) const {
    std::vector<Access> list;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      const Node& node = nodes_[n];
      if (node.rank != rank) continue;
      const Instance& instance = instances_[node.instance];
      const auto add = [&](int b, int64_t offset, int64_t bytes, bool write) {
        const Buffer& buffer = instance.t->buffers(b);
        const int64_t begin = buffer.offset() + offset;
        list.push_back({begin, begin + bytes, buffer.place(), write, node.start, node.finish, n, b});
      };
      if (node.step == nullptr) {
        for (int b : instance.action->sources()) add(b, 0, instance.t->buffers(b).bytes(), false);
        for (int b : instance.action->destinations()) add(b, 0, instance.t->buffers(b).bytes(), true);
        continue;
      }
      const Segment& segment = p_.segments(instance.action->segment());
      const auto add_value = [&](int v, bool write) {
        const Value& value = segment.values(v);
        add(instance.action->operands(value.operand()), value.offset(),
            *ElementCount(value.shape()) * DTypeBytes(value.dtype()), write);
      };
      for (int v : node.step->inputs()) add_value(v, false);
      for (int v : node.step->outputs()) {
        const Kernel k = node.step->kernel();
        if (node.step->accumulate() || k == EXACT_ACCUMULATE || k == SQUARED_NORM) add_value(v, false);
        add_value(v, true);
      }
    }
    return list;
  }

  std::string CheckRank(int rank) const {
    const std::vector<Access> list = Accesses(rank);
    for (size_t i = 0; i < list.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Access &a = list[i], &b = list[j];
        if (a.node == b.node || a.place != b.place || !(a.write || b.write)) continue;
        if (Disjoint(a.begin, a.end, b.begin, b.end) || Disjoint(a.from, a.to, b.from, b.to)) continue;
        if (InOrder(a.node, b.node)) continue;
        return absl::StrCat("race: ", Name(a.node), " and ", Name(b.node));
      }
    }
    return CheckLifetimes(rank, list);
  }

  // Collectives of one stream take effect in order.
  bool InOrder(int a, int b) const {
    return !nodes_[a].communicator.empty() && nodes_[a].communicator == nodes_[b].communicator;
  }

  struct Lifetime {
    int buffer = 0, copy = 0;
    int64_t from = 0, to = 0;
  };

  std::string CheckLifetimes(int rank, const std::vector<Access>& list) const {
    const Template& t = p_.templates(TemplateOfRank(p_, rank));
    std::map<std::pair<int, int>, Lifetime> lives;  // (buffer, copy)
    for (const Access& a : list) {
      if (t.buffers(a.buffer).persistent()) continue;
      const Instance& instance = instances_[nodes_[a.node].instance];
      int64_t start = a.from;
      for (int n = instance.first; n < instance.first + instance.count; ++n) start = std::min(start, nodes_[n].start);
      const auto [it, fresh] =
          lives.emplace(std::pair(a.buffer, instance.copy), Lifetime{a.buffer, instance.copy, start, -1});
      if (a.write) it->second.from = std::min(it->second.from, start);
    }
    for (const Instance& instance : instances_) {
      if (instance.rank != rank) continue;
      for (int b : instance.action->releases()) {
        const auto it = lives.find({b, instance.copy});
        if (it == lives.end()) return absl::StrCat("buffer ", b, " is released without use");
        if (it->second.to >= 0) return absl::StrCat("buffer ", b, " is released twice");
        it->second.to = 0;
        for (int n = instance.first; n < instance.first + instance.count; ++n) {
          if (nodes_[n].step != nullptr && nodes_[n].step->detached()) continue;
          it->second.to = std::max(it->second.to, nodes_[n].finish);
        }
      }
    }
    for (const Access& a : list) {
      if (t.buffers(a.buffer).persistent()) continue;
      const Lifetime& life = lives.at({a.buffer, instances_[nodes_[a.node].instance].copy});
      if (a.to > life.to) return absl::StrCat(Name(a.node), " uses buffer ", a.buffer, " after its release");
      if (!a.write && !Written(a, list))
        return absl::StrCat(Name(a.node), " reads undefined bytes of buffer ", a.buffer);
    }
    std::vector<Lifetime> all;
    for (const auto& [key, life] : lives) all.push_back(life);
    for (int b = 0; b < t.buffers_size(); ++b) {
      if (t.buffers(b).persistent()) all.push_back({b, 0, 0, int64_t{1} << 60});
    }
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Buffer &a = t.buffers(all[i].buffer), &b = t.buffers(all[j].buffer);
        if (a.place() != b.place() ||
            Disjoint(a.offset(), a.offset() + a.bytes(), b.offset(), b.offset() + b.bytes()) ||
            Disjoint(all[i].from, all[i].to, all[j].from, all[j].to)) {
          continue;
        }
        return absl::StrCat("buffers ", all[i].buffer, " and ", all[j].buffer, " live on the same bytes");
      }
    }
    return "";
  }

  // True if every byte of a read was written before, in the same lifetime.
  bool Written(const Access& read, const std::vector<Access>& list) const {
    std::vector<std::pair<int64_t, int64_t>> writes;
    const int copy = instances_[nodes_[read.node].instance].copy;
    for (const Access& a : list) {
      const bool before = a.to <= read.from || (InOrder(a.node, read.node) && a.node < read.node);
      if (a.write && a.buffer == read.buffer && before && instances_[nodes_[a.node].instance].copy == copy) {
        writes.emplace_back(a.begin, a.end);
      }
    }
    std::sort(writes.begin(), writes.end());
    int64_t covered = read.begin;
    for (const auto& [begin, end] : writes) {
      if (begin <= covered) covered = std::max(covered, end);
    }
    return covered >= read.end;
  }

  const Program& p_;
  const int repetitions_;
  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  std::vector<Instance> instances_;
  std::map<std::pair<int, std::string>, std::vector<int>> sequences_;
  std::vector<std::vector<int>> matches_, starts_with_;
  std::vector<std::vector<int>> unit_nodes_;
  size_t unit_next_ = 0;  // Next transfer of the last unit.
  std::vector<int64_t> compute_free_;
};

}  // namespace

std::string FindFault(const Program& program, int repetitions, uint64_t timing_seed) {
  return Run(program, repetitions, timing_seed).Check();
}

}  // namespace weft
