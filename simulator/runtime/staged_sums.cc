// A program whose sums of gradients go through host memory.
//
// Before each sum of gradients over replicas, an action copies the gradients to the host. The process that runs the
// rank's loop waits for the copy, so the next computation of the rank waits too. After the sum, another action copies
// the gradients back. Actions that waited for the sum wait for the copy back.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/edit/program_edit.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

bool IsSum(const Action& action) {
  return action.purpose() == GRADIENT_SYNC && (action.kind() == ALL_REDUCE || action.kind() == REDUCE_SCATTER);
}

bool Computes(const Action& action) { return !IsMessage(action.kind()) && !IsCopy(action.kind()); }

class Stager {
 public:
  Stager(Program* program, Template* t) : program_(program), t_(t), next_id_(NextActionId(*t)) {}

  void Stage() {
    // For each sum, by its id, the id of the action that copies the result back.
    std::map<int, int> behind;
    google::protobuf::RepeatedPtrField<Action> staged;
    // Copies to the host that the next compute action waits for.
    std::vector<int32_t> blocking;
    for (Action& action : *t_->mutable_body()) {
      if (!IsSum(action)) {
        if (Computes(action)) {
          for (const int32_t copy : blocking) action.add_deps()->set_action(copy);
          blocking.clear();
        }
        *staged.Add() = std::move(action);
        continue;
      }
      Action out = CopyAction(action, OFFLOAD, action.sources());
      *out.mutable_deps() = action.deps();
      Action back = CopyAction(action, FETCH, action.destinations());
      back.add_deps()->set_action(action.id());
      *back.mutable_releases() = action.releases();
      action.clear_releases();
      action.clear_deps();
      action.add_deps()->set_action(out.id());
      blocking.push_back(out.id());
      behind[action.id()] = back.id();
      *staged.Add() = std::move(out);
      *staged.Add() = std::move(action);
      *staged.Add() = std::move(back);
    }
    t_->mutable_body()->Swap(&staged);
    RedirectDependencies(behind, t_);
  }

 private:
  Action CopyAction(const Action& sum, ActionKind kind, const google::protobuf::RepeatedField<int32_t>& buffers) {
    int64_t bytes = 0;
    for (const int32_t buffer : buffers) bytes += t_->buffers(buffer).bytes();
    Action copy;
    copy.set_id(next_id_++);
    copy.set_kind(kind);
    copy.set_stage(sum.stage());
    copy.set_step(sum.step());
    copy.set_name(absl::StrCat(sum.name(), kind == OFFLOAD ? " to host" : " from host"));
    copy.set_segment(program_->segments_size());
    Segment& segment = *program_->add_segments();
    segment.set_name(copy.name());
    Step& step = *segment.add_steps();
    step.set_name(copy.name());
    step.set_kernel(CAST);
    step.set_stream(kind == OFFLOAD ? D2H : H2D);
    step.mutable_work()->set_bytes(bytes);
    return copy;
  }

  Program* program_;
  Template* t_;
  int next_id_ = 0;
};

}  // namespace

void StageGradientSums(Program* program) {
  for (Template& t : *program->mutable_templates()) Stager(program, &t).Stage();
}

}  // namespace weft::sim
