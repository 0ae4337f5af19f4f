#include "simulator/program/view_memory.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

Range AddChanges(const ClassSizes& sizes, TemplateView& view) {
  Range range = {.begin = static_cast<int32_t>(view.memory.size()), .end = 0};
  for (int c = 0; c < kBufferClasses; ++c) {
    if (sizes[c] != 0) view.memory.push_back({.buffer_class = static_cast<BufferClass>(c), .bytes = sizes[c]});
  }
  range.end = view.memory.size();
  return range;
}

}  // namespace

// The bytes of buffers that become live or die with an action are summed by class.
absl::Status AddMemory(const Program& program, TemplateView& view) {
  const Template& t = *view.proto;
  std::vector<ClassSizes> allocates(view.actions.size());
  std::vector<ClassSizes> frees(view.actions.size());
  // True for buffers that the current list has already written.
  std::vector<bool> written(t.buffers_size(), false);
  ListKind list = ListKind::kPrologue;
  absl::Status status;
  for (size_t i = 0; i < view.actions.size(); ++i) {
    if (view.actions[i].list != list) written.assign(written.size(), false);
    list = view.actions[i].list;
    const Action& action = *view.actions[i].action;
    const auto change = [&](int32_t buffer, bool write) {
      if (buffer < 0 || buffer >= t.buffers_size()) {
        status.Update(ViewError(t, action, absl::StrCat("buffer ", buffer, " does not exist")));
        return;
      }
      const Buffer& proto = t.buffers(buffer);
      if (proto.persistent() || proto.place() != DEVICE || (write && written[buffer])) return;
      if (proto.class_() < 0 || proto.class_() >= kBufferClasses) {
        status.Update(ViewError(t, action, absl::StrCat("buffer ", buffer, " has an unknown class")));
        return;
      }
      if (write) written[buffer] = true;
      (write ? allocates : frees)[i][proto.class_()] += proto.bytes();
    };
    if (IsCompute(action.kind())) {
      const Segment& segment = program.segments(action.segment());
      if (action.operands_size() != segment.operands_size()) {
        return ViewError(
            t, action,
            absl::StrCat("it binds ", action.operands_size(), " buffers to ", segment.operands_size(), " operands"));
      }
      for (int k = 0; k < action.operands_size(); ++k) {
        if (segment.operands(k).access() != READ) change(action.operands(k), /*write=*/true);
      }
    }
    for (const int32_t buffer : action.destinations()) change(buffer, /*write=*/true);
    for (const int32_t buffer : action.releases()) change(buffer, /*write=*/false);
  }
  WEFT_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < view.actions.size(); ++i) {
    view.actions[i].allocates = AddChanges(allocates[i], view);
    view.actions[i].frees = AddChanges(frees[i], view);
  }
  for (const Buffer& buffer : t.buffers()) {
    if (buffer.persistent() && buffer.place() == DEVICE && buffer.class_() >= 0 && buffer.class_() < kBufferClasses) {
      view.persistent[buffer.class_()] += buffer.bytes();
    }
  }
  return absl::OkStatus();
}

// Counts held activations as the timing of a schedule does: a stage holds a microbatch from the start of its forward to
// the end of its backward, or of the weight half of the backward.
void AddHeldActivations(TemplateView& view) {
  using Key = std::tuple<int32_t, int32_t, int32_t>;  // lane, stage, microbatch
  std::map<Key, std::pair<int32_t, int32_t>> wide;    // width, object
  for (ActionView& action_view : view.actions) {
    const Action& action = *action_view.action;
    if (action.kind() != FORWARD && action.kind() != FORWARD_BACKWARD) continue;
    // An action that runs again (rule P15) adds no microbatch: its microbatch was already in flight.
    if (action.if_exceeded()) continue;
    action_view.holds = std::max(1, action.width());
    if (action_view.holds == 1) continue;
    const int32_t object = view.objects++;
    for (int32_t i = 0; i < action_view.holds; ++i) {
      wide[{action.lane(), action.stage(), action.microbatch() + i}] = {action_view.holds, object};
    }
  }
  for (ActionView& action_view : view.actions) {
    const Action& action = *action_view.action;
    Key key = {action.lane(), action.stage(), action.microbatch()};
    if (action.kind() == FORWARD_BACKWARD) {
      key = {action.backward().lane(), action.backward().stage(), action.backward().microbatch()};
    } else if (action.kind() != BACKWARD && action.kind() != BACKWARD_WEIGHT) {
      continue;
    }
    action_view.unholds = 1;
    const auto found = wide.find(key);
    if (found == wide.end()) continue;
    std::tie(action_view.unholds, action_view.held_object) = found->second;
  }
}

}  // namespace weft::sim
