// Collectives of random programs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "tests/random_generator.h"

namespace weft {
namespace random_program {
namespace {

// Collectives of one purpose use one algorithm (rule P4).
const char* AlgorithmOf(Purpose purpose) {
  constexpr const char* kAlgorithms[] = {"ring", "tree", "halving-doubling", "hierarchical", "direct"};
  return kAlgorithms[purpose % 5];
}

}  // namespace

int64_t Generator::AxisOf(const std::string& name) const { return AxisSize(program_.mesh(), name); }

std::string Generator::Communicator(const Group& group, Purpose purpose) const {
  std::string text = absl::StrCat("c", purpose);
  for (const MeshAxis& axis : program_.mesh().axes()) {
    for (const AxisSubset& subset : group.axes()) {
      const int64_t members = SubsetSize(subset, axis.size());
      if (subset.axis() != axis.name() || members == 1) continue;
      absl::StrAppend(&text, " ", axis.name());
      if (members == axis.size()) continue;
      for (int64_t i : subset.indices()) absl::StrAppend(&text, ",", i);
      if (subset.block() > 0) absl::StrAppend(&text, "/", subset.block());
      if (subset.stride() > 0) absl::StrAppend(&text, "%", subset.stride());
    }
  }
  return text;
}

Group Generator::RandomGroup(bool pipe) {
  Group group;
  for (const MeshAxis& axis : program_.mesh().axes()) {
    if (axis.name() == "pipe" ? !pipe : random_.Chance(0.4)) continue;
    AxisSubset& subset = *group.add_axes();
    subset.set_axis(axis.name());
    if (axis.name() == "pipe" || random_.Chance(0.5)) continue;
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= axis.size(); ++d) {
      if (axis.size() % d == 0) divisors.push_back(d);
    }
    random_.Chance(0.5) ? subset.set_block(random_.Pick(divisors)) : subset.set_stride(random_.Pick(divisors));
  }
  return GroupSize(program_.mesh(), group) > 1 ? group : Group();
}

void Generator::CollectiveSegment() {
  const bool pipe = random_.Chance(0.25);
  std::vector<TemplateDraft*> members;
  const int64_t first = random_.Below(static_cast<int64_t>(templates_.size()));
  for (TemplateDraft& t : templates_) {
    if (pipe || t.pipe == templates_[first].pipe) members.push_back(&t);
  }
  std::vector<std::pair<Group, Purpose>> communicators;
  for (int64_t i = 1 + random_.Below(3); i > 0; --i) {
    const Group group = RandomGroup(pipe && random_.Chance(0.5));
    if (group.axes_size() > 0) communicators.emplace_back(group, static_cast<Purpose>(TENSOR + random_.Below(3)));
  }
  if (communicators.empty()) return;

  // An operand of the segment. Operand i holds value i.
  struct Planned {
    int64_t elements;
    ::weft::Access access;
  };
  std::vector<Planned> operands = {{kPart, READ}};
  Segment plan;
  const auto add = [&](int64_t elements, ::weft::Access access) {
    operands.push_back({elements, access});
    return static_cast<int>(operands.size()) - 1;
  };
  const auto collective = [&](Kernel kernel, std::vector<int> inputs, std::vector<int> outputs, size_t which) {
    Step* step = AddStep(plan, kernel, std::move(inputs), std::move(outputs));
    step->set_stream(COLLECTIVE);
    step->clear_work();
    *step->mutable_collective()->mutable_group() = communicators[which].first;
    step->mutable_collective()->set_purpose(communicators[which].second);
    step->mutable_collective()->set_algorithm(AlgorithmOf(communicators[which].second));
    if (random_.Chance(0.3)) step->set_detached(true);
    return step;
  };
  int now = add(kPart, WRITE);
  AddStep(plan, GELU, {0}, {now});
  for (int64_t i = 1 + random_.Below(4); i > 0; --i) {
    const size_t which = static_cast<size_t>(random_.Below(static_cast<int64_t>(communicators.size())));
    const int64_t size = GroupSize(program_.mesh(), communicators[which].first);
    switch (random_.Below(5)) {
      case 0: {
        const int y = random_.Chance(0.4) ? now : add(kPart, WRITE);
        collective(GROUP_ALL_REDUCE, {now}, {y}, which);
        now = y;
        break;
      }
      case 1: {
        const int y = add(kPart, WRITE), z = add(kPart, WRITE);
        collective(GROUP_ALL_REDUCE, {0, now}, {y, z}, which);
        now = z;
        break;
      }
      case 2: {
        const int whole = add(kPart * size, WRITE), y = add(kPart, WRITE);
        collective(GROUP_ALL_GATHER, {now}, {whole}, which);
        collective(GROUP_REDUCE_SCATTER, {whole}, {y}, which);
        now = y;
        break;
      }
      case 3: {
        const int whole = add(kPart * size, WRITE), sum = add(kPart, READ_WRITE);
        collective(GROUP_ALL_GATHER, {now}, {whole}, which);
        collective(GROUP_REDUCE_SCATTER, {whole}, {sum}, which)->set_accumulate(true);
        break;
      }
      default: {
        const int y = add(kPart, WRITE);
        AddStep(plan, random_.Chance(0.5) ? GELU : CAST, {now}, {y});
        now = y;
      }
    }
  }
  // Each step waits for earlier steps that touch the same values, unless a stream orders the two.
  const auto writes = [](const Step& step, int v) {
    return std::find(step.outputs().begin(), step.outputs().end(), v) != step.outputs().end();
  };
  const auto reads = [](const Step& step, int v) {
    return std::find(step.inputs().begin(), step.inputs().end(), v) != step.inputs().end() ||
           (step.accumulate() && step.outputs(0) == v);
  };
  const auto stream = [&](const Step& step) {
    return step.stream() == COLLECTIVE ? Communicator(step.collective().group(), step.collective().purpose()) : "";
  };
  for (int j = 0; j < plan.steps_size(); ++j) {
    Step& later = *plan.mutable_steps(j);
    for (int i = 0; i < j; ++i) {
      const Step& earlier = plan.steps(i);
      bool conflict = false;
      for (int v = 0; v < static_cast<int>(operands.size()); ++v) {
        conflict = conflict || (writes(earlier, v) && (writes(later, v) || reads(later, v))) ||
                   (reads(earlier, v) && writes(later, v));
      }
      if (stream(earlier) == stream(later) ? conflict && random_.Chance(0.2) : conflict || random_.Chance(0.1)) {
        later.add_deps(i);
      }
    }
  }

  // Bind the buffers of all templates first. If a bound buffer has been released meanwhile, no template gets the
  // collectives, because a collective needs all its members.
  std::vector<std::vector<int>> bound;
  bool live = true;
  for (TemplateDraft* t : members) {
    std::vector<int>& buffers = bound.emplace_back();
    for (const Planned& operand : operands) {
      buffers.push_back(operand.access == WRITE ? Writable(*t, operand.elements, buffers)
                                                : Readable(*t, operand.elements, buffers));
    }
    live = live && Live(*t, buffers);
  }
  const std::string name = absl::StrCat("collectives ", random_.Below(3));
  for (size_t m = 0; m < members.size(); ++m) {
    TemplateDraft& t = *members[m];
    if (!live) {
      for (int b : bound[m]) {
        if (!t.t.buffers(b).persistent() && t.history[b].accesses.empty()) Abandon(t, b);
      }
      continue;
    }
    std::vector<std::pair<int, ::weft::Access>> list;
    for (size_t o = 0; o < operands.size(); ++o) list.emplace_back(bound[m][o], operands[o].access);
    Compute(t, name, list, [&](Segment& s) { *s.mutable_steps() = plan.steps(); });
  }
}

void Generator::Collective() {
  Group group;
  std::vector<TemplateDraft*> members;
  const int p = static_cast<int>(random_.Below(pipe_));
  const bool any = options_.collectives && random_.Chance(0.5);
  const int kind = any ? 4 : static_cast<int>(random_.Below(4));
  if (any) {
    const bool pipe = random_.Chance(0.3);
    group = RandomGroup(pipe);
    if (group.axes_size() == 0) return;
    for (TemplateDraft& t : templates_) {
      if (pipe || t.pipe == p) members.push_back(&t);
    }
  } else if (kind == 0) {
    group.add_axes()->set_axis("data");
    members = OnPipe(p);
  } else if (kind == 1 && OnPipe(p)[0]->data >= 0 && data_ > 2) {
    AxisSubset& subset = *group.add_axes();
    subset.set_axis("data");
    const int without = static_cast<int>(random_.Below(data_));
    for (int d = 0; d < data_; ++d) {
      if (d == without) continue;
      subset.add_indices(d);
      members.push_back(OnPipe(p, d)[0]);
    }
  } else if (kind == 2) {
    AxisSubset& subset = *group.add_axes();
    subset.set_axis("pipe");
    for (int q = 0; q < pipe_; ++q) {
      if (q != p && random_.Chance(0.5)) continue;
      subset.add_indices(q);
      for (TemplateDraft* t : OnPipe(q)) members.push_back(t);
    }
    // With the data axis, the group resembles the replicas of a stage.
    if (options_.schedules && random_.Chance(0.5)) group.add_axes()->set_axis("data");
  } else {
    group.add_axes()->set_axis("pipe");
    if (random_.Chance(0.5)) group.add_axes()->set_axis("data");
    for (TemplateDraft& t : templates_) members.push_back(&t);
  }
  const Purpose purpose = static_cast<Purpose>(1 + random_.Below(4));
  // If a collective is in the order of the compute actions, it may share its collective stream with steps of segments.
  const bool shared = any && random_.Chance(0.3);
  const std::string stream = shared ? "" : Communicator(group, purpose);
  const ActionKind what = !any ? ALL_REDUCE : random_.Pick<ActionKind>({ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER});
  const int64_t size = what == ALL_REDUCE ? 1 : GroupSize(program_.mesh(), group);
  const int pairs = 1 + static_cast<int>(random_.Below(2));
  const int64_t n = size > 1 ? kPart : random_.Pick(sizes_);
  const int64_t from = what == REDUCE_SCATTER ? n * size : n, to = what == ALL_GATHER ? n * size : n;
  const bool in_place = what == ALL_REDUCE;
  for (TemplateDraft* member : members) {
    TemplateDraft& t = *member;
    std::vector<int> sources, destinations, used;
    for (int i = 0; i < pairs; ++i) {
      const int source = Readable(t, from, used);
      sources.push_back(source);
      used.push_back(source);
    }
    for (int source : sources) {
      destinations.push_back(in_place && random_.Chance(0.5) ? source : Writable(t, to, used));
      used.push_back(destinations.back());
    }
    Draft& draft = NewDraft(t, what, stream);
    if (shared) draft.one_part = false;
    *draft.action.mutable_group() = group;
    draft.action.set_purpose(shared ? static_cast<Purpose>(TENSOR + purpose % 3) : purpose);
    draft.action.set_algorithm(AlgorithmOf(draft.action.purpose()));
    draft.action.mutable_sources()->Assign(sources.begin(), sources.end());
    draft.action.mutable_destinations()->Assign(destinations.begin(), destinations.end());
    const int id = static_cast<int>(t.drafts.size()) - 1;
    for (int b : sources) {
      if (std::find(destinations.begin(), destinations.end(), b) == destinations.end()) Access(t, id, b, false);
    }
    for (int b : destinations) Access(t, id, b, true);
  }
}

}  // namespace random_program
}  // namespace weft
