#include "verifier/index.h"

#include <algorithm>
#include <map>

#include "kernels/traits.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"

namespace weft::verify {

int Index::AxisIndex(const std::string& name) const {
  for (int i = 0; i < program->mesh().axes_size(); ++i) {
    if (program->mesh().axes(i).name() == name) return i;
  }
  return -1;
}

int Index::PinnedPosition(int axis) const {
  const auto it = std::find(pinned_axes.begin(), pinned_axes.end(), axis);
  return it == pinned_axes.end() ? -1 : static_cast<int>(it - pinned_axes.begin());
}

int64_t Index::AxisSize(const std::string& axis) const {
  const int i = AxisIndex(axis);
  return i < 0 ? 1 : program->mesh().axes(i).size();
}

int Index::PeerRole(int role, const Peer& peer) const {
  for (const Coordinate& at : peer.at()) role = WithCoordinate(role, PinnedPosition(AxisIndex(at.axis())), at.index());
  return role;
}

std::vector<int> Index::GroupRoles(int role, const Group& group) const {
  std::vector<int> roles = {role};
  for (const AxisSubset& subset : group.axes()) {
    const int axis = AxisIndex(subset.axis());
    const int position = PinnedPosition(axis);
    if (position < 0) continue;
    const std::vector<int64_t> coordinates =
        SubsetCoordinates(subset, program->mesh().axes(axis).size(), RoleCoordinate(role, position));
    std::vector<int> expanded;
    for (int member : roles) {
      for (const int64_t c : coordinates) expanded.push_back(WithCoordinate(member, position, c));
    }
    roles = std::move(expanded);
  }
  std::sort(roles.begin(), roles.end());
  return roles;
}

bool Index::GroupCoversAxis(const Group& group, const std::string& axis) const {
  const int64_t size = AxisSize(axis);
  if (size == 1) return true;
  for (const AxisSubset& subset : group.axes()) {
    if (subset.axis() == axis) return SubsetSize(subset, size) == size;
  }
  return false;
}

std::string StreamKey(const Program& program, const Template& t, const Action& action) {
  if (!IsTransfer(action.kind())) return CommunicatorKey(program, action.group(), action.purpose());
  if (program.transfer_streams() == SHARED) return "transfers";
  if (program.transfer_streams() == PER_DIRECTION) return Direction_Name(action.direction());
  const auto own = [&](const std::string& axis, int64_t index) {
    return std::any_of(t.pins().begin(), t.pins().end(),
                       [&](const Coordinate& pin) { return pin.axis() == axis && pin.index() == index; });
  };
  std::string key;
  for (const MeshAxis& axis : program.mesh().axes()) {
    for (const Coordinate& at : action.peer().at()) {
      if (at.axis() == axis.name() && !own(at.axis(), at.index())) {
        absl::StrAppend(&key, at.axis(), "=", at.index(), " ");
      }
    }
  }
  return absl::StrCat(key, Direction_Name(action.direction()), " lane ", action.lane(), " skip ", action.skip(), " ",
                      ActionKind_Name(action.kind()));
}

namespace {

// Number of samples of one microbatch on a rank.
int64_t SamplesOfMicrobatch(const Program& program) {
  int64_t z = 1;
  for (const MeshAxis& axis : program.mesh().axes()) {
    if (axis.name() == "z") z = axis.size();
  }
  return std::max<int64_t>(1, program.recipe().microbatch_sequences()) / z;
}

}  // namespace

int64_t RowsOfMicrobatch(const Program& program) {
  return SamplesOfMicrobatch(program) * program.recipe().sequence_length();
}

int64_t RowsOfMicrobatch(const Program& program, const Step& step) {
  const int64_t samples = SamplesOfMicrobatch(program), rows = kernels::RowsOfSample(program, step);
  return rows < 1 || rows > Limits::kRows / std::max<int64_t>(1, samples) ? 0 : samples * rows;
}

bool CheckRoles(Index* index, Findings* findings) {
  const Program& program = *index->program;
  for (int axis = 0; axis < program.mesh().axes_size(); ++axis) {
    for (const Template& t : program.templates()) {
      if (std::any_of(t.pins().begin(), t.pins().end(),
                      [&](const Coordinate& pin) { return pin.axis() == program.mesh().axes(axis).name(); })) {
        index->pinned_axes.push_back(axis);
        break;
      }
    }
  }
  int64_t roles = 1;
  for (int axis : index->pinned_axes) {
    index->role_stride.push_back(roles);
    roles *= program.mesh().axes(axis).size();  // At most Limits::kRanks.
  }
  if (roles > Limits::kRoles) {
    findings->Add("P13.limits", "the templates pin axes with ", roles,
                  " combinations of coordinates; allowed: at most ", Limits::kRoles);
    return false;
  }
  index->role_template.assign(roles, -1);
  const auto describe = [&](int role) {
    std::string text;
    for (size_t p = 0; p < index->pinned_axes.size(); ++p) {
      absl::StrAppend(&text, p == 0 ? "" : " ", program.mesh().axes(index->pinned_axes[p]).name(), "=",
                      index->RoleCoordinate(role, static_cast<int>(p)));
    }
    return text.empty() ? std::string("any") : text;
  };
  for (int i = 0; i < program.templates_size(); ++i) {
    const Template& t = program.templates(i);
    std::vector<int> matching = {0};
    for (size_t p = 0; p < index->pinned_axes.size(); ++p) {
      const MeshAxis& axis = program.mesh().axes(index->pinned_axes[p]);
      int64_t begin = 0, end = axis.size();
      for (const Coordinate& pin : t.pins()) {
        if (pin.axis() == axis.name()) begin = pin.index(), end = begin + 1;
      }
      std::vector<int> next;
      for (int role : matching) {
        for (int64_t c = begin; c < end; ++c) next.push_back(static_cast<int>(role + c * index->role_stride[p]));
      }
      matching = std::move(next);
    }
    for (int role : matching) {
      if (index->role_template[role] >= 0) {
        findings->Add("P8.templates", "the ranks at ", describe(role), " match template '",
                      program.templates(index->role_template[role]).name(), "' and template '", t.name(), "'");
        return false;
      }
      index->role_template[role] = i;
    }
  }
  for (int role = 0; role < roles; ++role) {
    if (index->role_template[role] < 0) {
      findings->Add("P8.templates", "no template matches the ranks at ", describe(role));
      return false;
    }
  }
  return true;
}

std::vector<StageWork> WorkOf(const Action& action) {
  StageWork work{action.kind(), action.stage(), action.lane(), action.microbatch(), 1};
  if (action.kind() == FORWARD) work.width = Width(action);
  if (action.kind() != FORWARD_BACKWARD) return {work};
  work.kind = FORWARD;
  const StageMicrobatch& b = action.backward();
  return {work, {BACKWARD, b.stage(), b.lane(), b.microbatch(), 1}};
}

bool BelongsToTensor(BufferRole role) {
  return role == PARAM || role == MASTER || role == GRAD || role == GRAD_ACCUMULATOR || role == MOMENT1 ||
         role == MOMENT2 || role == KEPT_WEIGHT || role == KEPT_MOMENT1 || role == KEPT_MOMENT2;
}

std::optional<int64_t> TensorBytes(DType dtype, const google::protobuf::RepeatedField<int64_t>& shape) {
  if (shape.size() > 8) return std::nullopt;
  for (int64_t extent : shape) {
    if (extent < 1 || extent > Limits::kExtent) return std::nullopt;
  }
  const std::optional<int64_t> count = ElementCount(shape);
  if (!count || DTypeBytes(dtype) == 0 || *count > Limits::kArenaBytes / DTypeBytes(dtype)) return std::nullopt;
  return *count * DTypeBytes(dtype);
}

int64_t EndOf(const Value& value) { return value.offset() + *ElementCount(value.shape()) * DTypeBytes(value.dtype()); }

namespace {

// Finds the maximal runs of at least two transfers with the same nonzero group number in the list that was added last.
void FindGroups(List list, TemplateIndex* t) {
  const auto number = [&](int a) {
    const Action& action = *t->actions[a].action;
    return IsTransfer(action.kind()) ? action.transfer_group() : 0;
  };
  const int end = static_cast<int>(t->actions.size());
  for (int a = t->list_begin[list]; a < end;) {
    int b = a + 1;
    while (number(a) != 0 && b < end && number(b) == number(a)) ++b;
    if (b - a > 1) {
      for (int i = a; i < b; ++i) t->actions[i].group = static_cast<int>(t->groups.size());
      t->groups.push_back({a, b - a, {}});
    }
    a = b;
  }
}

}  // namespace

bool BuildTemplates(Index* index, Findings* findings) {
  const Program& program = *index->program;
  std::vector<int64_t> steps_of_template;
  for (const Template& t : program.templates()) {
    TemplateIndex& ti = index->templates.emplace_back();
    ti.t = &t;
    absl::flat_hash_map<std::string, int> streams;
    absl::flat_hash_map<std::pair<int, int>, int> clocks;  // (stream, index in its group's members there)
    int64_t steps = 0;
    const auto stream_of = [&](const std::string& key) {
      const auto [it, fresh] = streams.emplace(key, ti.streams);
      if (fresh) ++ti.streams;
      return it->second;
    };
    const auto clock = [&](int stream, int nth) {
      const auto [it, fresh] = clocks.emplace(std::pair(stream, nth), ti.clocks);
      if (fresh) ++ti.clocks;
      return it->second;
    };
    ti.channels.resize(index->segments.size());
    const auto add = [&](List list, const auto& actions) {
      ti.list_begin[list] = static_cast<int>(ti.actions.size());
      for (const Action& action : actions) {
        ti.by_id[action.id()] = static_cast<int>(ti.actions.size());
        int stream = -1;
        if (IsCompute(action.kind())) {
          const SegmentUse& segment = index->segments[action.segment()];
          steps += segment.parts.size();
          std::vector<TemplateIndex::Channel>& channels = ti.channels[action.segment()];
          for (size_t c = channels.size(); c < segment.communicators.size(); ++c) {
            const int own = stream_of(segment.communicators[c]);
            channels.push_back({own, clock(own, 0)});
          }
        } else {
          stream = stream_of(StreamKey(program, t, action));
          ++steps;
        }
        ti.actions.push_back({&action, list, stream});
      }
      FindGroups(list, &ti);
    };
    add(kPrologue, t.prologue());
    add(kBody, t.body());
    add(kEpilogue, t.epilogue());
    ti.list_begin[3] = static_cast<int>(ti.actions.size());
    for (ActionRef& ref : ti.actions) {
      if (ref.stream >= 0 && ref.group < 0) ref.clock = clock(ref.stream, 0);
    }
    for (TransferGroup& group : ti.groups) {
      if (group.size > Limits::kGroup) {
        findings->Add("P13.limits", Describe(t, *ti.actions[group.first].action), ": begins a transfer group of ",
                      group.size, " members; allowed: at most ", Limits::kGroup);
        return false;
      }
      std::map<int, int> members;
      for (int a = group.first; a < group.first + group.size; ++a) {
        ActionRef& ref = ti.actions[a];
        ref.clock = clock(ref.stream, members[ref.stream]++);
      }
      for (const auto& [stream, unused] : members) group.streams.push_back(stream);
    }
    // The analysis expands two repetitions.
    if (2 * steps * ti.clocks > Limits::kClocks) {
      findings->Add("P13.limits", "template '", t.name(), "' has ", steps, " steps on ", ti.clocks,
                    " streams; steps x streams must be at most ", Limits::kClocks / 2);
      return false;
    }
    steps_of_template.push_back(steps);
  }
  int64_t total = 0;
  for (int t : index->role_template) total += steps_of_template[t];
  if (total > Limits::kExpandedSteps) {
    findings->Add("P13.limits", "all roles together have ", total, " steps; allowed: at most ", Limits::kExpandedSteps);
    return false;
  }
  return true;
}

}  // namespace weft::verify
