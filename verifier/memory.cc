#include "verifier/memory.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "verifier/accesses.h"
#include "verifier/order.h"
#include "verifier/symbols.h"

namespace weft::verify {
namespace {

// True if fn holds for all nodes of an access that touch the buffer.
template <typename Fn>
bool AllNodes(const Order& order, const BufferAccess& access, Fn fn) {
  const Order::Instance& instance = order.instances()[access.instance];
  if (access.use == nullptr) return fn(instance.first_node);
  return std::all_of(access.use->parts.begin(), access.use->parts.end(),
                     [&](int part) { return fn(instance.first_node + part); });
}

// FirstNodes: true if `fn` holds for the nodes of the access that start first. LastNodes: for those that finish last.
template <typename Fn>
bool FirstNodes(const Order& order, const BufferAccess& access, Fn fn) {
  const Order::Instance& instance = order.instances()[access.instance];
  if (access.use == nullptr) return fn(instance.first_node);
  return std::all_of(access.use->first_parts.begin(), access.use->first_parts.end(),
                     [&](int part) { return fn(instance.first_node + part); });
}
template <typename Fn>
bool LastNodes(const Order& order, const BufferAccess& access, Fn fn) {
  const Order::Instance& instance = order.instances()[access.instance];
  if (access.use == nullptr) return fn(instance.first_node);
  return std::all_of(access.use->last_parts.begin(), access.use->last_parts.end(),
                     [&](int part) { return fn(instance.first_node + part); });
}

class TemplateMemory {
 public:
  TemplateMemory(const Index& index, const TemplateIndex& t, int repetitions, Order::Ranks ranks, Findings* findings)
      : t_(t), findings_(findings), order_(Built(index, t, repetitions, ranks)), accesses_(index, t, order_) {}

  void Run() {
    for (int b = 0; b < t_.t->buffers_size() && !findings_->full(); ++b) {
      if (t_.t->buffers(b).place() == HOST) {
        CheckConflictsByBytes(b);
      } else {
        CheckConflicts(b);
      }
      if (!t_.t->buffers(b).persistent()) CheckLifetimes(b);
      CheckIndices(b);
    }
    CheckUnusedReleases();
    // Overlaps are between lifetimes, so the lifetimes must be sound.
    if (findings_->empty()) CheckOverlaps(DEVICE);
    if (findings_->empty()) CheckOverlaps(HOST);
  }

 private:
  static Order Built(const Index& index, const TemplateIndex& t, int repetitions, Order::Ranks ranks) {
    Order order;
    order.Build(index, t, repetitions, ranks);
    return order;
  }

  // A buffer lives from the start of `first` to the finish of `release`; -1 = during the whole run.
  struct Lifetime {
    int buffer = 0;
    int first = -1;
    int release = -1;
    int rank = 0;
  };

  template <typename... Parts>
  void Bad(const char* rule, const Parts&... parts) {
    findings_->Add(rule, "template '", t_.t->name(), "': ", parts...);
  }
  std::string Name(int instance) const {
    const Order::Instance& i = order_.instances()[instance];
    return Describe(*t_.actions[i.action].action);
  }
  // Returns "action 3 'B m0'", followed by "of the next repetition" if the instance belongs to the repetition after
  // that of instance `from`.
  std::string NameFrom(int instance, int from) const {
    const Order::Instance& i = order_.instances()[instance];
    const bool next = i.copy != order_.instances()[from].copy && t_.actions[i.action].list == kBody &&
                      t_.actions[order_.instances()[from].action].list == kBody;
    return absl::StrCat(Name(instance), next ? " of the next repetition" : "");
  }

  // True if all nodes of `earlier` are finished before `later` starts. Then all accesses of the two are ordered,
  // whichever parts touch the memory. Many buffers ask for the same pairs, so answers are cached.
  bool WholeBefore(int earlier, int later) {
    Answer& known = answers_[(static_cast<size_t>(later) * 31 + earlier) % answers_.size()];
    if (known.earlier != earlier || known.later != later) {
      const SegmentUse* const segment = order_.instances()[earlier].segment;
      const bool waited = segment == nullptr || !segment->has_detached;
      known = {earlier, later, waited && order_.InstanceBefore(earlier, later)};
    }
    return known.before;
  }

  bool Ordered(const BufferAccess& a, const BufferAccess& b) {
    if (WholeBefore(a.instance, b.instance)) return true;
    if (FirstNodes(order_, b, [&](int y) {
          return LastNodes(order_, a, [&](int x) { return order_.Before(a.instance, x, y); });
        })) {
      return true;
    }
    // Collectives of one stream are ordered among each other although none waits for the finish of the one before. Only
    // a comparison of all pairs of nodes shows this.
    return AllNodes(
        order_, b, [&](int y) { return AllNodes(order_, a, [&](int x) { return order_.Visible(a.instance, x, y); }); });
  }

  void CheckConflicts(int buffer) {
    const absl::Span<const BufferAccess> list = accesses_.AccessesOf(buffer);
    const BufferAccess* writer = nullptr;
    size_t readers = 0;  // list[readers .. i - 1] all read what `writer` wrote.
    const auto race = [&](const BufferAccess& a, const BufferAccess& b) {
      Bad("P7.race", Name(a.instance), a.write ? " writes " : " reads ", DescribeBuffer(*t_.t, buffer), " and ",
          NameFrom(b.instance, a.instance), b.write ? " writes" : " reads", " it, and neither waits for the other");
    };
    for (size_t i = 0; i < list.size(); ++i) {
      if (writer != nullptr && !Ordered(*writer, list[i])) return race(*writer, list[i]);
      if (!list[i].write) continue;
      for (; readers < i; ++readers) {
        if (!Ordered(list[readers], list[i])) return race(list[readers], list[i]);
      }
      readers = i + 1;
      writer = &list[i];
    }
  }

  // For a range of bytes: the last access that wrote it, and the accesses that have read it since.
  struct Last {
    int writer = -1;
    std::vector<int> readers;
  };

  // Like CheckConflicts, byte by byte. Used for host memory, where a FETCH of some bytes may run while an OFFLOAD
  // writes others.
  void CheckConflictsByBytes(int buffer) {
    const absl::Span<const BufferAccess> list = accesses_.AccessesOf(buffer);
    RangeMap<Last> last;
    int first = -1, second = -1;
    const auto require = [&](int earlier, int later) {
      if (earlier < 0 || earlier == later || first >= 0 || Ordered(list[earlier], list[later])) return;
      first = earlier, second = later;
    };
    for (int i = 0; i < static_cast<int>(list.size()) && first < 0; ++i) {
      if (list[i].use == nullptr) continue;
      // Handles the reads first: the order inside the segment covers reads of bytes that the action itself wrote.
      for (const bool writes : {false, true}) {
        const RangeSet& bytes = writes ? list[i].use->writes : list[i].use->first_reads;
        for (const auto& [begin, end] : bytes.ranges()) {
          RangeMap<Last> next;
          last.ForEach(begin, end, [&](int64_t from, int64_t to, Last known) {
            require(known.writer, i);
            if (writes) {
              for (const int reader : known.readers) require(reader, i);
            } else {
              known.readers.push_back(i);
              next.Set(from, to, std::move(known));
            }
            return true;
          });
          if (writes) {
            last.Set(begin, end, {i, {}});
          } else {
            for (auto& [from, value] : next.ranges) last.Set(from, value.first, std::move(value.second));
          }
        }
      }
    }
    if (first < 0) return;
    const BufferAccess &a = list[first], &b = list[second];
    Bad("P7.race", Name(a.instance), a.write ? " writes " : " reads ", DescribeBuffer(*t_.t, buffer), " and ",
        NameFrom(b.instance, a.instance), b.write ? " writes" : " reads",
        " the same bytes of it, and neither waits for ", "the other");
  }

  // Checks one lifetime for each copy of a list that uses the buffer.
  void CheckLifetimes(int buffer) {
    const absl::Span<const BufferAccess> list = accesses_.AccessesOf(buffer);
    // Each copy is in chronological order, because `list` is.
    std::vector<std::vector<const BufferAccess*>> by_copy(order_.copies());
    for (const BufferAccess& access : list) by_copy[order_.instances()[access.instance].copy].push_back(&access);
    for (int copy = 0; copy < order_.copies(); ++copy) {
      if (by_copy[copy].empty()) continue;
      const BufferAccess& first = *by_copy[copy].front();
      const auto what = [&] { return DescribeBuffer(*t_.t, buffer); };
      RangeSet written;
      for (const BufferAccess* access : by_copy[copy]) {
        if (!Defined(*access, buffer, written)) {
          return Bad("P7.undefined", Name(access->instance), " reads bytes of ", what(),
                     " that nothing has written in this repetition");
        }
        if (!access->write) continue;
        if (access->use != nullptr) {
          written.Add(access->use->writes);
        } else {
          written.Add(0, t_.t->buffers(buffer).bytes());
        }
      }
      const int release = ReleaseIn(buffer, copy);
      if (release < 0) {
        return Bad("P7.release", what(), " is first written by ", Name(first.instance), " and never released");
      }
      const Order::Instance& r = order_.instances()[release];
      for (const BufferAccess* access : by_copy[copy]) {
        if (!UsedUntilRelease(*access, r, release)) {
          return Bad("P7.use_after_release", Name(access->instance), " uses ", what(), ", but it may still run when ",
                     Name(release), " releases it");
        }
      }
      lifetimes_.push_back({buffer, first.instance, release, FirstRankOf(first.instance)});
    }
  }

  int FirstRankOf(int instance) const {
    const Order::Instance& i = order_.instances()[instance];
    int rank = order_.Rank(i.first_node);
    if (i.segment == nullptr) return rank;
    for (int part : i.segment->first_parts) rank = std::min(rank, order_.Rank(i.first_node + part));
    return rank;
  }

  bool Defined(const BufferAccess& access, int buffer, const RangeSet& written) const {
    if (!access.reads) return true;
    return access.use != nullptr ? written.Covers(access.use->first_reads)
                                 : written.Covers(0, t_.t->buffers(buffer).bytes());
  }

  // True if each step that touches the buffer is finished when the releasing action is.
  bool UsedUntilRelease(const BufferAccess& access, const Order::Instance& r, int release) const {
    // Actions wait for each detached part separately, so all parts must be checked, not only the last ones.
    const bool all = access.use != nullptr && order_.instances()[access.instance].segment->has_detached;
    const auto finished = [&](int node) {
      if (access.instance == release && !order_.Detached(node)) return true;
      for (int end = r.first_node; end < r.first_node + r.nodes; ++end) {
        if (!order_.Detached(end) && order_.Before(access.instance, node, end)) return true;
      }
      return false;
    };
    return all ? AllNodes(order_, access, finished) : LastNodes(order_, access, finished);
  }

  int ReleaseIn(int buffer, int copy) {
    if (releases_.empty()) FindReleases();
    return releases_[copy][buffer];
  }

  void FindReleases() {
    releases_.assign(order_.copies(), std::vector<int>(t_.t->buffers_size(), -1));
    for (int i = 0; i < static_cast<int>(order_.instances().size()); ++i) {
      const Order::Instance& instance = order_.instances()[i];
      for (int b : t_.actions[instance.action].action->releases()) {
        int& release = releases_[instance.copy][b];
        if (release >= 0) {
          Bad("P7.release", Name(release), " and ", Name(i), " both release ", DescribeBuffer(*t_.t, b));
        }
        release = i;
      }
    }
  }

  void CheckUnusedReleases() {
    if (releases_.empty()) FindReleases();
    for (int copy = 0; copy < order_.copies(); ++copy) {
      for (int b = 0; b < t_.t->buffers_size(); ++b) {
        if (releases_[copy][b] < 0) continue;
        const absl::Span<const BufferAccess> list = accesses_.AccessesOf(b);
        if (std::none_of(list.begin(), list.end(), [&](const BufferAccess& access) {
              return order_.instances()[access.instance].copy == copy;
            })) {
          return Bad("P7.release", Name(releases_[copy][b]), " releases ", DescribeBuffer(*t_.t, b),
                     ", which nothing in its list uses");
        }
      }
    }
  }

  // Checks that tokens and targets read from a buffer were written by LOAD_TOKENS and LOAD_TARGETS.
  void CheckIndices(int buffer) {
    RangeSet tokens, targets;
    for (const BufferAccess& access : accesses_.AccessesOf(buffer)) {
      const OperandUse* use = access.use;
      if (use == nullptr) {
        if (access.write) tokens.clear(), targets.clear();
        continue;
      }
      const bool reads = !use->token_reads.empty() || !use->target_reads.empty();
      const bool writes = !use->token_writes.empty() || !use->target_writes.empty();
      if (!reads && !writes && tokens.empty() && targets.empty()) continue;
      if (!tokens.Covers(use->token_reads) || !targets.Covers(use->target_reads)) {
        return Bad("P2.indices", Name(access.instance), " reads ", DescribeBuffer(*t_.t, buffer), " as ",
                   tokens.Covers(use->token_reads) ? "targets, which were not written by LOAD_TARGETS"
                                                   : "tokens, which were not written by LOAD_TOKENS");
      }
      tokens.Remove(use->writes);
      targets.Remove(use->writes);
      tokens.Add(use->token_writes);
      targets.Add(use->target_writes);
    }
  }

  // Sweeps over the bytes and keeps the lifetimes at the current byte in time order. Only neighbors in this order are
  // compared: because the relation is transitive, this orders all of them.
  void CheckOverlaps(Place place) {
    std::vector<Lifetime> all;
    for (const Lifetime& life : lifetimes_) {
      if (t_.t->buffers(life.buffer).place() == place) all.push_back(life);
    }
    for (int b = 0; b < t_.t->buffers_size(); ++b) {
      if (t_.t->buffers(b).persistent() && t_.t->buffers(b).place() == place) all.push_back({b, -1, -1, -1});
    }
    struct Event {
      int64_t byte;
      bool begin;
      int life;
    };
    std::vector<Event> events;
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      const Buffer& buffer = t_.t->buffers(all[i].buffer);
      events.push_back({buffer.offset(), true, i});
      events.push_back({buffer.offset() + buffer.bytes(), false, i});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::tie(a.byte, a.begin, a.life) < std::tie(b.byte, b.begin, b.life);
    });
    const auto earlier = [&](int a, int b) { return std::tie(all[a].rank, a) < std::tie(all[b].rank, b); };
    std::set<int, decltype(earlier)> live(earlier);
    for (const Event& event : events) {
      if (findings_->full()) return;
      if (event.begin) {
        const auto it = live.insert(event.life).first;
        if (it != live.begin()) CheckPair(all[*std::prev(it)], all[*it]);
        if (std::next(it) != live.end()) CheckPair(all[*it], all[*std::next(it)]);
      } else {
        const auto it = live.find(event.life);
        const bool inside = it != live.begin() && std::next(it) != live.end();
        if (inside) CheckPair(all[*std::prev(it)], all[*std::next(it)]);
        live.erase(it);
      }
    }
  }

  void CheckPair(const Lifetime& a, const Lifetime& b) {
    if (a.first < 0 || b.first < 0) {
      Bad("P7.overlap", DescribeBuffer(*t_.t, a.buffer), " and ", DescribeBuffer(*t_.t, b.buffer), " share bytes, and ",
          DescribeBuffer(*t_.t, a.first < 0 ? a.buffer : b.buffer), " is persistent");
      return;
    }
    if (a.release != b.first && order_.InstanceBefore(a.release, b.first)) return;
    Bad("P7.overlap", DescribeBuffer(*t_.t, a.buffer), " and ", DescribeBuffer(*t_.t, b.buffer), " share bytes, but ",
        NameFrom(b.first, a.release), ", which first writes the second, may start before ", Name(a.release),
        ", which releases the first, is finished");
  }

  // A cached answer of WholeBefore.
  struct Answer {
    int earlier = -1, later = -1;
    bool before = false;
  };

  const TemplateIndex& t_;
  Findings* findings_;
  const Order order_;
  const Accesses accesses_;
  std::array<Answer, 1024> answers_;
  std::vector<std::vector<int>> releases_;  // [copy][buffer] = instance
  std::vector<Lifetime> lifetimes_;
};

// Both rankings of the nodes give the same verdict, because the order that a check proves does not depend on the
// ranking. The ranking decides only which accesses a finding names, and which access is examined if several begin a
// lifetime in host memory at the same time.
void CheckExpansion(const Index& index, const TemplateIndex& t, int repetitions, Findings* findings) {
  const bool lives_in_host_memory = std::any_of(t.t->buffers().begin(), t.t->buffers().end(), [](const Buffer& buffer) {
    return buffer.place() == HOST && !buffer.persistent();
  });
  if (!lives_in_host_memory) {
    Findings any(1);
    TemplateMemory(index, t, repetitions, Order::kOfList, &any).Run();
    if (any.empty()) return;
  }
  TemplateMemory(index, t, repetitions, Order::kOfReadiness, findings).Run();
}

}  // namespace

void CheckMemory(const Index& index, const TemplateIndex& t, Findings* findings) {
  // Two repetitions show every order of a longer run: pairs of repetitions repeat, and dependencies of a larger
  // distance only add order. In a run of one repetition, the order through a second repetition is missing, so it is
  // checked too.
  CheckExpansion(index, t, 2, findings);
  const bool edges = t.list_begin[kBody] > 0 && t.list_begin[kEpilogue] < t.list_begin[3];
  if (edges && findings->empty()) CheckExpansion(index, t, 1, findings);
}

}  // namespace weft::verify
