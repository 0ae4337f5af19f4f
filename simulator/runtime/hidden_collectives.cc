// A program as run by frameworks that sum gradients under the backward and gather weights under the forward.
//
// A program of weft sums the gradients of a stage after the stage's last backward. Before the first forward of the next
// iteration, it gathers the parts of the weights that an optimizer step made. A runtime may hide both. The sum of a
// bucket then becomes a detached step of the backward that completes the bucket, after the last step that writes a
// gradient of the bucket. A gather becomes a step of the first forward, and only steps that read its weights wait for
// it. Actions that waited for the collectives wait for the backward or the forward. A gather is not moved if the
// forward also waits for another stage: there the warm-up of the pipeline hides the gather.
//
// The result is for costing only: it is not proven again and never run. Sources: Li et al., "PyTorch Distributed",
// arXiv:2006.15704, sec. 3.2.3 (buckets under the backward); Megatron-LM --overlap-grad-reduce and
// --overlap-param-gather (docs of Megatron-Core's DistributedDataParallel).
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/edit/program_edit.h"
#include "proto/util/units.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

bool WritesGradients(ActionKind kind) {
  return kind == BACKWARD || kind == BACKWARD_WEIGHT || kind == FORWARD_BACKWARD;
}

// True if the members of the group are on several stages. Such members run different templates, whose segments may not
// have a moved collective at the same place.
bool CrossesStages(const Group& group) {
  return std::any_of(group.axes().begin(), group.axes().end(),
                     [](const AxisSubset& axis) { return axis.axis() == "pipe"; });
}

std::set<int32_t> BuffersOf(const google::protobuf::RepeatedField<int32_t>& list) { return {list.begin(), list.end()}; }

bool Touches(const Segment& segment, const Action& action, const google::protobuf::RepeatedField<int32_t>& values,
             const std::set<int32_t>& buffers) {
  return std::any_of(values.begin(), values.end(), [&](int32_t value) {
    return buffers.count(action.operands(segment.values(value).operand())) > 0;
  });
}

// Returns a value of `segment` for the whole buffer. Adds an operand to `action` if it does not bind the buffer yet.
int32_t ValueOf(const Template& t, int32_t buffer, Access access, Action* action, Segment* segment) {
  const Buffer& of = t.buffers(buffer);
  int32_t operand = -1;
  for (int i = 0; i < action->operands_size() && operand < 0; ++i) {
    if (action->operands(i) == buffer) operand = i;
  }
  if (operand < 0) {
    operand = action->operands_size();
    action->add_operands(buffer);
    Operand& added = *segment->add_operands();
    added.set_name(of.name());
    added.set_bytes(of.bytes());
    added.set_access(access);
  }
  Value& value = *segment->add_values();
  value.set_name(of.name());
  value.set_operand(operand);
  value.set_dtype(of.dtype());
  value.add_shape(of.bytes() / std::max<int64_t>(DTypeBytes(of.dtype()), 1));
  return segment->values_size() - 1;
}

// Returns the collective action as a step of the segment that `action` runs.
Step StepOf(const Template& t, const Action& collective, Action* action, Segment* segment) {
  Step step;
  step.set_name(collective.name());
  step.set_kernel(collective.kind() == ALL_GATHER       ? GROUP_ALL_GATHER
                  : collective.kind() == REDUCE_SCATTER ? GROUP_REDUCE_SCATTER
                                                        : GROUP_ALL_REDUCE);
  step.set_stream(COLLECTIVE);
  *step.mutable_collective()->mutable_group() = collective.group();
  step.mutable_collective()->set_purpose(collective.purpose());
  step.mutable_collective()->set_algorithm(collective.algorithm());
  for (int i = 0; i < collective.sources_size(); ++i) {
    step.add_inputs(ValueOf(t, collective.sources(i), READ, action, segment));
    step.add_outputs(ValueOf(t, collective.destinations(i), WRITE, action, segment));
  }
  return step;
}

// A collective that becomes a step of a compute action, its host. `collective` and `host` are positions in the body;
// `joining` is the step.
struct Move {
  int collective = 0;
  int host = 0;
  JoiningStep joining;
};

class Mover {
 public:
  Mover(Program* program, Template* t) : program_(program), template_(t) {
    for (int i = 0; i < t->body_size(); ++i) position_[t->body(i).id()] = i;
  }

  void HideSums() {
    // `writer`: the last writer of each buffer so far. `moved`: for buffers that a moved collective writes, its move.
    std::map<int32_t, int> writer, moved;
    for (int i = 0; i < template_->body_size(); ++i) {
      const Action& action = template_->body(i);
      if (WritesGradients(action.kind())) {
        const Segment& segment = program_->segments(action.segment());
        for (int j = 0; j < action.operands_size(); ++j) {
          if (segment.operands(j).access() != READ) writer[action.operands(j)] = i;
        }
      }
      if (!IsCollective(action.kind()) || action.purpose() != GRADIENT_SYNC || CrossesStages(action.group())) continue;
      Move move = {.collective = i, .host = -1, .joining = {}};
      std::vector<int> after;
      bool known = true;
      for (const int32_t source : action.sources()) {
        if (const auto found = moved.find(source); found != moved.end()) {
          after.push_back(found->second);
          move.host = std::max(move.host, moves_[found->second].host);
        } else if (const auto written = writer.find(source); written != writer.end()) {
          move.host = std::max(move.host, written->second);
        } else {
          known = false;
        }
      }
      if (!known || move.host < 0 || !OnlyWaitsFor(action, move.host)) continue;
      // Collectives that read each other's results must all move to the same host.
      if (std::any_of(after.begin(), after.end(), [&](int m) { return moves_[m].host != move.host; })) continue;
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      move.joining.after = std::move(after);
      const Action& host = template_->body(move.host);
      const Segment& segment = program_->segments(host.segment());
      const std::set<int32_t> sources = BuffersOf(action.sources());
      int last = -1;
      for (int s = 0; s < segment.steps_size(); ++s) {
        if (Touches(segment, host, segment.steps(s).outputs(), sources)) last = s;
      }
      for (const int m : move.joining.after) last = std::max(last, moves_[m].joining.after_step);
      if (last < 0) continue;
      move.joining.after_step = last;
      for (const int32_t destination : action.destinations()) moved[destination] = static_cast<int>(moves_.size());
      moves_.push_back(std::move(move));
    }
    Apply(/*sums=*/true);
  }

  void HideGathers() {
    for (int i = 0; i < template_->body_size(); ++i) {
      const Action& action = template_->body(i);
      if (action.kind() != ALL_GATHER || action.purpose() != GATHER_WEIGHTS || CrossesStages(action.group())) continue;
      const std::set<int32_t> gathered = BuffersOf(action.destinations());
      int host = -1;
      bool waited_here = false;
      for (int j = 0; j < template_->body_size() && !waited_here; ++j) {
        const Action& other = template_->body(j);
        for (const Dependency& dep : other.deps()) {
          if (dep.action() != action.id()) continue;
          waited_here = waited_here || dep.distance() == 0;
          if (host < 0 && dep.distance() == 1 && (other.kind() == FORWARD || other.kind() == FORWARD_BACKWARD))
            host = j;
        }
      }
      if (host < 0 || waited_here || host >= i || AwaitsRecv(template_->body(host))) continue;
      const Action& forward = template_->body(host);
      const Segment& segment = program_->segments(forward.segment());
      Move move = {.collective = i, .host = host, .joining = {}};
      for (int s = 0; s < segment.steps_size(); ++s) {
        if (Touches(segment, forward, segment.steps(s).inputs(), gathered)) move.joining.awaited_by.push_back(s);
      }
      if (!move.joining.awaited_by.empty()) moves_.push_back(std::move(move));
    }
    // Sorts the gathers in the order in which the forward needs them.
    std::stable_sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) {
      return a.joining.awaited_by.front() < b.joining.awaited_by.front();
    });
    Apply(/*sums=*/false);
  }

 private:
  bool AwaitsRecv(const Action& action) const {
    return std::any_of(action.deps().begin(), action.deps().end(), [&](const Dependency& dep) {
      const auto found = position_.find(dep.action());
      return found != position_.end() && template_->body(found->second).kind() == RECV;
    });
  }

  // True if the collective waits for no action after `host` in this repetition, except collectives that move to the
  // same host.
  bool OnlyWaitsFor(const Action& action, int host) const {
    return std::all_of(action.deps().begin(), action.deps().end(), [&](const Dependency& dep) {
      const auto found = position_.find(dep.action());
      if (dep.distance() > 0 || found == position_.end() || found->second <= host) return true;
      return std::any_of(moves_.begin(), moves_.end(),
                         [&](const Move& move) { return move.collective == found->second && move.host == host; });
    });
  }

  void Apply(bool sums) {
    if (moves_.empty()) return;
    std::map<int, std::vector<int>> by_host;
    std::map<int32_t, int> move_of_id;
    for (size_t m = 0; m < moves_.size(); ++m) {
      by_host[moves_[m].host].push_back(static_cast<int>(m));
      move_of_id[template_->body(moves_[m].collective).id()] = static_cast<int>(m);
    }
    for (const auto& [host, members] : by_host) {
      Action* action = template_->mutable_body(host);
      Segment segment = program_->segments(action->segment());
      std::vector<JoiningStep> joining;
      std::map<int, int> place;
      for (const int m : members) {
        place[m] = static_cast<int>(joining.size());
        JoiningStep step = moves_[m].joining;
        step.step = StepOf(*template_, template_->body(moves_[m].collective), action, &segment);
        step.step.set_detached(sums);
        if (sums) step.step.add_deps(step.after_step);
        for (int& other : step.after) other = place.at(other);
        joining.push_back(std::move(step));
      }
      Join(joining, &segment);
      action->set_segment(program_->segments_size());
      *program_->add_segments() = std::move(segment);
    }
    MoveDependencies(move_of_id, sums);
    MoveReleases(move_of_id, sums);
    auto& body = *template_->mutable_body();
    const auto moved = [&](const Action& action) { return move_of_id.contains(action.id()); };
    body.erase(std::remove_if(body.begin(), body.end(), moved), body.end());
  }

  // The host waits for the actions that a moved collective waited for. Actions that waited for the collective wait for
  // the host.
  void MoveDependencies(const std::map<int32_t, int>& move_of_id, bool sums) {
    const auto waits_of = [&](int m) {
      std::vector<Dependency> waits;
      for (const Dependency& dep : template_->body(moves_[m].collective).deps()) {
        if (move_of_id.count(dep.action()) == 0) waits.push_back(dep);
      }
      return waits;
    };
    for (const Move& move : moves_) {
      Action* host = template_->mutable_body(move.host);
      for (const Dependency& dep : template_->body(move.collective).deps()) {
        const bool itself = dep.action() == host->id() && dep.distance() == 0;
        const auto found = move_of_id.find(dep.action());
        if (itself || (found != move_of_id.end() && (sums || dep.distance() > 0))) continue;
        AddDependency(dep.action(), dep.distance() + (sums ? 0 : 1), dep.detached(), host);
      }
    }
    for (auto* list : {template_->mutable_prologue(), template_->mutable_body(), template_->mutable_epilogue()}) {
      for (Action& action : *list) {
        if (move_of_id.count(action.id()) > 0) continue;
        const google::protobuf::RepeatedPtrField<Dependency> deps = action.deps();
        action.clear_deps();
        for (const Dependency& dep : deps) {
          const auto found = move_of_id.find(dep.action());
          if (found == move_of_id.end()) {
            AddDependency(dep.action(), dep.distance(), dep.detached(), &action);
            continue;
          }
          const Move& move = moves_[found->second];
          const Action& host = template_->body(move.host);
          if (sums) {
            if (action.id() != host.id() || dep.distance() > 0) AddDependency(host.id(), dep.distance(), true, &action);
            continue;
          }
          // The host itself needs no dependency on the gather, and compute actions after the host wait for the host.
          // Any other action needs only the parts themselves, so it waits for the actions that made the parts.
          const auto own = position_.find(action.id());
          const bool computes = action.segment() > 0 || action.operands_size() > 0;
          if (list == template_->mutable_body() && own != position_.end() && own->second >= move.host && computes) {
            if (own->second > move.host) AddDependency(host.id(), dep.distance() - 1, false, &action);
            continue;
          }
          for (const Dependency& wait : waits_of(found->second)) {
            AddDependency(wait.action(), wait.distance() + dep.distance(), wait.detached(), &action);
          }
        }
      }
    }
  }

  // The host of a sum takes over the sum's releases. The action that made the parts takes over the releases of a
  // gather, because a lifetime does not continue into the next repetition.
  void MoveReleases(const std::map<int32_t, int>& move_of_id, bool sums) {
    for (const Move& move : moves_) {
      const Action& collective = template_->body(move.collective);
      if (collective.releases_size() == 0) continue;
      int to = sums ? move.host : -1;
      for (const Dependency& dep : collective.deps()) {
        const auto found = position_.find(dep.action());
        if (sums || dep.distance() > 0 || found == position_.end() || move_of_id.count(dep.action()) > 0) continue;
        to = std::max(to, found->second);
      }
      if (to >= 0) template_->mutable_body(to)->mutable_releases()->MergeFrom(collective.releases());
    }
  }

  Program* program_;
  Template* template_;
  std::map<int32_t, int> position_;
  std::vector<Move> moves_;
};

}  // namespace

void HideGradientSums(Program* program) {
  if (program->steps_per_repetition() > 0) return;
  for (Template& t : *program->mutable_templates()) Mover(program, &t).HideSums();
}

void HideWeightGathers(Program* program) {
  if (program->steps_per_repetition() > 0) return;
  for (Template& t : *program->mutable_templates()) Mover(program, &t).HideGathers();
}

}  // namespace weft::sim
