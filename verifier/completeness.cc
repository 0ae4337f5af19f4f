#include "verifier/completeness.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "proto/util/units.h"
#include "verifier/order.h"

namespace weft::verify {
namespace {

bool OnlyTraining(BufferRole role) {
  return role == GRAD || role == GRAD_ACCUMULATOR || role == MOMENT1 || role == MOMENT2 || role == LOCAL_NORMS ||
         role == NORMS || role == NORM || role == LOSS_SCALE || role == KEPT_WEIGHT || role == KEPT_MOMENT1 ||
         role == KEPT_MOMENT2;
}

class Completeness {
 public:
  Completeness(const Index& index, bool training, Findings* findings)
      : index_(index), training_(training), findings_(findings) {}

  void Run() {
    CheckLists();
    if (!findings_->empty()) return;
    const int axis = index_.AxisIndex("pipe");
    pipe_position_ = axis < 0 ? -1 : index_.PinnedPosition(axis);
    // A pipeline consists of the roles that differ only in the pipe coordinate.
    std::map<int, std::vector<int>> pipelines;
    for (int role = 0; role < static_cast<int>(index_.role_template.size()); ++role) {
      pipelines[pipe_position_ < 0 ? role : index_.WithCoordinate(role, pipe_position_, 0)].push_back(role);
    }
    for (const auto& [first, roles] : pipelines) {
      if (findings_->full()) return;
      CheckPipeline(roles);
    }
    if (!training_) return;
    for (const TemplateIndex& t : index_.templates) {
      if (!findings_->full()) CheckForwardFirst(t);
    }
  }

 private:
  const TemplateIndex& TemplateOf(int role) const { return index_.templates[index_.role_template[role]]; }

  void CheckLists() {
    for (const TemplateIndex& t : index_.templates) {
      for (const ActionRef& ref : t.actions) {
        if (ref.list == kBody) continue;
        const ActionKind kind = ref.action->kind();
        if (kind == FORWARD && MicrobatchesAhead(*index_.program, *ref.action) > 0) continue;
        if (kind != SEND && kind != RECV) {
          findings_->Add("P13.complete", Describe(*t.t, *ref.action), ": a ", ActionKind_Name(kind),
                         " must be in the body, because the body is the optimizer step");
        }
      }
      if (findings_->empty() && IsAsynchronous(*index_.program)) CheckAhead(t);
      for (const ActionRef& ref : t.actions) {
        for (int b : ref.action->destinations()) {
          const Buffer& buffer = t.t->buffers(b);
          if (ref.action->kind() == RECV && buffer.role() != NO_ROLE) {
            findings_->Add("P13.complete", Describe(*t.t, *ref.action), ": receives into ", DescribeBuffer(*t.t, b),
                           ", whose role is ", BufferRole_Name(buffer.role()));
          }
        }
      }
    }
  }

  // Checks that the prologue runs everything that the body runs ahead, each once (P14).
  void CheckAhead(const TemplateIndex& t) {
    std::map<std::tuple<int, int, int>, int> balance;  // (lane, stage, microbatch) -> count in the body minus prologue
    std::map<std::tuple<int, int, int>, const Action*> last;
    for (const ActionRef& ref : t.actions) {
      const Action& a = *ref.action;
      if (a.kind() != FORWARD || MicrobatchesAhead(*index_.program, a) == 0) continue;
      const std::tuple key = {a.lane(), a.stage(), a.microbatch()};
      balance[key] += ref.list == kBody ? 1 : -1;
      last[key] = &a;
    }
    for (const auto& [key, difference] : balance) {
      if (difference == 0) continue;
      findings_->Add("P14.ahead", Describe(*t.t, *last[key]), ": is ahead ",
                     difference > 0 ? "in the body but not in the prologue" : "in the prologue but not in the body");
      return;
    }
  }

  void CheckPipeline(const std::vector<int>& roles) {
    Pipeline p;
    for (int role : roles) {
      for (const ActionRef& ref : TemplateOf(role).actions) {
        if (!IsMicrobatch(ref.action->kind()) || ref.list != kBody) continue;
        for (const StageWork& work : WorkOf(*ref.action)) {
          for (int m = work.microbatch; m < work.microbatch + work.width; ++m) {
            CheckWork({role, ref.action}, work, m, &p);
            if (findings_->full()) return;
          }
        }
      }
    }
    if (!findings_->empty()) return;
    for (const Phase phase : {kForward, kInput, kWeight}) {
      if (phase != kForward && !training_) continue;
      const int64_t want = int64_t{index_.program->stages()} * index_.program->microbatches();
      if (static_cast<int64_t>(p.seen[phase].size()) == want) continue;
      // All keys are in range, so this finds the first gap in ascending order.
      std::pair<int, int> next = {0, 0};
      for (const auto& [key, unused] : p.seen[phase]) {
        if (key != next) break;
        if (++next.second == index_.program->microbatches()) next = {next.first + 1, 0};
      }
      const bool half = phase != kForward && p.seen[phase == kInput ? kWeight : kInput].contains(next);
      findings_->Add("P13.complete", "no template of the pipeline of template '", TemplateOf(roles[0]).t->name(),
                     "' runs the ",
                     phase == kForward ? "FORWARD"
                     : !half           ? "BACKWARD"
                     : phase == kInput ? "BACKWARD_INPUT"
                                       : "BACKWARD_WEIGHT",
                     " of stage ", next.first, ", microbatch ", next.second);
      return;
    }
  }

  // The parts of a microbatch's work on a stage.
  enum Phase { kForward = 0, kInput, kWeight };
  // An action, and the role (template) that has it.
  struct Seen {
    int role = 0;
    const Action* action = nullptr;
  };
  // The actions of one pipeline that have been seen, by the work that each does.
  struct Pipeline {
    std::map<std::pair<int, int>, Seen> seen[3];                // By phase and (stage, microbatch).
    std::map<std::pair<int, int>, Seen> owner;                  // By (lane, stage).
    std::map<int, std::pair<int, Seen>> lane;                   // Lane of each microbatch.
    std::map<int, std::pair<std::pair<int, int>, Seen>> group;  // (first, width) of each microbatch's forward.
  };

  std::string Name(const Seen& seen) const { return Describe(*TemplateOf(seen.role).t, *seen.action); }

  void CheckWork(const Seen& at, const StageWork& work, int m, Pipeline* p) {
    const auto bad = [&](const auto&... parts) { findings_->Add("P13.complete", Name(at), ": ", parts...); };
    for (const Phase phase : {kForward, kInput, kWeight}) {
      if ((work.kind == FORWARD) != (phase == kForward)) continue;
      if (work.kind == (phase == kInput ? BACKWARD_WEIGHT : BACKWARD_INPUT)) continue;
      const auto [it, fresh] = p->seen[phase].emplace(std::pair(work.stage, m), at);
      if (fresh) continue;
      findings_->Add("P13.complete", Name(at), " repeats ", Name(it->second), ": stage ", work.stage,
                     " sees microbatch ", m, " twice");
      return;
    }
    const auto [own, first] = p->owner.emplace(std::pair(work.lane, work.stage), at);
    if (!first && own->second.role != at.role) {
      bad("stage ", work.stage, " of lane ", work.lane, " is run by ", Name(own->second));
    }
    const auto [lane, no_lane] = p->lane.emplace(m, std::pair(work.lane, at));
    if (!no_lane && lane->second.first != work.lane) {
      bad("microbatch ", m, " is in lane ", work.lane, ", but ", Name(lane->second.second), " has it in lane ",
          lane->second.first);
    }
    if (work.kind != FORWARD) return;
    const std::pair<int, int> group = {work.microbatch, work.width};
    const auto [together, no_group] = p->group.emplace(m, std::pair(group, at));
    if (!no_group && together->second.first != group) {
      bad("microbatch ", m, " is one of ", work.width, " that run together from microbatch ", work.microbatch,
          ", but in ", Name(together->second.second), " it is one of ", together->second.first.second,
          " from microbatch ", together->second.first.first, "; all stages must run the same microbatches together");
    }
  }

  // True if the dependencies within one repetition alone prove what CheckForwardFirst checks, as in most programs. An
  // action that depends on another one starts only after all steps of that one are finished, except detached ones.
  bool WaitForForwards(const TemplateIndex& t) const {
    constexpr int kMax = 4096;
    const int begin = t.list_begin[kBody], count = t.list_begin[kEpilogue] - begin;
    if (IsAsynchronous(*index_.program) || count > kMax) return false;
    std::map<std::tuple<int, int, int>, int> forward, input;
    for (int a = 0; a < static_cast<int>(t.actions.size()); ++a) {
      const Action& action = *t.actions[a].action;
      if (!IsMicrobatch(action.kind())) continue;
      if (a < begin || a >= begin + count) return false;
      for (const StageWork& work : WorkOf(action)) {
        for (int m = work.microbatch; m < work.microbatch + work.width; ++m) {
          if (work.kind == FORWARD) forward[{work.lane, work.stage, m}] = a - begin;
          if (work.kind == BACKWARD_INPUT) input[{work.lane, work.stage, m}] = a - begin;
        }
      }
    }
    // For each action of the body, one bit for each earlier action. The bit is set if the later action waits for the
    // earlier one by dependencies of distance 0, directly or through other actions.
    const int words = (count + 63) / 64;
    std::vector<uint64_t> finished(static_cast<size_t>(count) * words, 0);
    for (int a = 0; a < count; ++a) {
      const Action& action = *t.actions[begin + a].action;
      uint64_t* const own = &finished[static_cast<size_t>(a) * words];
      for (const Dependency& dep : action.deps()) {
        const int on = t.by_id.at(dep.action()) - begin;
        if (dep.distance() != 0 || on < 0 || on >= a) continue;
        const uint64_t* const before = &finished[static_cast<size_t>(on) * words];
        for (int w = 0; w < words; ++w) own[w] |= before[w];
        own[on / 64] |= uint64_t{1} << on % 64;
      }
      if (!IsMicrobatch(action.kind())) continue;
      for (const StageWork& work : WorkOf(action)) {
        if (work.kind == FORWARD) continue;
        const auto& earlier = work.kind == BACKWARD_WEIGHT ? input : forward;
        const auto it = earlier.find({work.lane, work.stage, work.microbatch});
        if (it == earlier.end() || (own[it->second / 64] >> it->second % 64 & 1) == 0) return false;
        // A dependency does not wait for detached steps.
        if (index_.segments[t.actions[begin + it->second].action->segment()].has_detached) return false;
      }
    }
    return true;
  }

  // Checks that with any timing the backward of a microbatch waits for its forward, and the weight half of a backward
  // for its input half.
  void CheckForwardFirst(const TemplateIndex& t) {
    if (WaitForForwards(t)) return;
    Order order;
    order.Build(index_, t, IsAsynchronous(*index_.program) ? 2 : 1, Order::kOfList);
    // (lane, stage, microbatch) -> instance
    std::map<std::tuple<int, int, int>, int> forward, input;
    // Microbatch numbers continue from one repetition to the next.
    const auto work_of = [&](int i) {
      const Order::Instance& instance = order.instances()[i];
      const Action& action = *t.actions[instance.action].action;
      std::vector<StageWork> works = WorkOf(action);
      for (StageWork& work : works) {
        work.microbatch +=
            (instance.copy - 1) * index_.program->microbatches() + MicrobatchesAhead(*index_.program, action);
      }
      return works;
    };
    const auto of_microbatch = [&](int i) {
      return IsMicrobatch(t.actions[order.instances()[i].action].action->kind());
    };
    const int instances = static_cast<int>(order.instances().size());
    for (int i = 0; i < instances; ++i) {
      if (!of_microbatch(i)) continue;
      for (const StageWork& work : work_of(i)) {
        for (int m = work.microbatch; m < work.microbatch + work.width; ++m) {
          if (work.kind == FORWARD) forward[{work.lane, work.stage, m}] = i;
          if (work.kind == BACKWARD_INPUT) input[{work.lane, work.stage, m}] = i;
        }
      }
    }
    for (int i = 0; i < instances && !findings_->full(); ++i) {
      if (!of_microbatch(i)) continue;
      for (const StageWork& work : work_of(i)) {
        if (work.kind == FORWARD) continue;
        const bool weight = work.kind == BACKWARD_WEIGHT;
        const auto& earlier = weight ? input : forward;
        const auto it = earlier.find({work.lane, work.stage, work.microbatch});
        const Action& action = *t.actions[order.instances()[i].action].action;
        if (it == earlier.end()) {
          findings_->Add("P13.complete", Describe(*t.t, action), ": the ", weight ? "input half" : "forward",
                         " of stage ", work.stage, ", microbatch ", work.microbatch % index_.program->microbatches(),
                         " is not on this rank");
        } else if (!Follows(order, it->second, i)) {
          findings_->Add("P13.order", Describe(*t.t, action), " does not wait for ",
                         Describe(*t.actions[order.instances()[it->second].action].action));
        }
      }
    }
  }

  // True if `j` waits for `i`. If a segment has collectives, it is enough that the compute steps of `j` wait for those
  // of `i`: a backward may gather weights before its forward is done. Rule P7 orders the reads of these weights, like
  // all accesses to memory.
  static bool Follows(const Order& order, int i, int j) {
    const Order::Instance &earlier = order.instances()[i], &later = order.instances()[j];
    if (earlier.segment == nullptr || later.segment == nullptr ||
        (earlier.segment->communicators.empty() && later.segment->communicators.empty())) {
      return order.InstanceBefore(i, j);
    }
    int last = -1, first = -1;
    for (int p = 0; p < earlier.nodes; ++p) {
      if (earlier.segment->parts[p].stream == COMPUTE) last = earlier.first_node + p;
    }
    for (int p = later.nodes - 1; p >= 0; --p) {
      if (later.segment->parts[p].stream == COMPUTE) first = later.first_node + p;
    }
    return last >= 0 && first >= 0 ? order.Before(i, last, first) : order.InstanceBefore(i, j);
  }

  const Index& index_;
  const bool training_;
  Findings* findings_;
  int pipe_position_ = -1;
};

}  // namespace

bool IsTraining(const Program& program) {
  if (program.has_evaluation()) return true;
  for (const Template& t : program.templates()) {
    for (const Buffer& buffer : t.buffers()) {
      if (OnlyTraining(buffer.role())) return true;
    }
    for (const Action& action : t.body()) {
      const ActionKind kind = action.kind();
      if (IsCompute(kind) && kind != FORWARD) return true;
    }
  }
  return false;
}

void CheckCompleteness(const Index& index, bool training, Findings* findings) {
  Completeness(index, training, findings).Run();
}

}  // namespace weft::verify
