// The end of a template's list, before and after, without clipping:
//
//   grad norm | norm sync | optimizer
//   grad norm of chunk 0, fetch 0, optimizer 0, offload 0, fetch 1, ..., grad norm of chunk 1, ... | norm sync |
//   optimizer
//
// The first line above is the list before, the second the list after. A chunk is the set of tensors whose gradients one
// collective sums. The last action runs the remaining steps of the optimizer's segment (the norm that is reported).
// With clipping, or if the optimizer's kernels read the norm, all buckets come after the norm sync. Fetches run on h2d
// and offloads on d2h, so the three kinds of action work side by side on neighboring buckets, whose copies take turns
// in kBucketsOnDevice places of the arena.
#include "compiler/rewrite/offload_optimizer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/rewrite/bucket_steps.h"
#include "compiler/rewrite/buckets.h"
#include "compiler/rewrite/gradient_sums.h"
#include "compiler/rewrite/host_states.h"
#include "compiler/rewrite/segment_part.h"
#include "kernels/traits.h"
#include "proto/edit/program_edit.h"
#include "proto/util/units.h"

namespace weft {
namespace {

constexpr int64_t kArena = 256;

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("plan.offload.optimizer = true: ", parts...));
}

class TemplateRewriter {
 public:
  TemplateRewriter(const Offload& offload, Program* program, Template* t)
      : capacity_(BucketCapacity(offload)), program_(*program), t_(*t), sums_(GradientSumsOf(*t)) {}

  absl::Status Run() {
    if (absl::Status status = FindEnd(); !status.ok() || optimizer_ < 0) return status;
    whole_ = program_.segments(t_.body(optimizer_).segment());
    operands_ = {t_.body(optimizer_).operands().begin(), t_.body(optimizer_).operands().end()};
    if (absl::Status status = FindUpdates(); !status.ok()) return status;
    GatherFromDevice();
    next_ = NextActionId(t_);
    MakeBody();
    t_.mutable_body()->Assign(std::make_move_iterator(body_.begin()), std::make_move_iterator(body_.end()));
    RedirectDependencies(becomes_, &t_);
    NumberActions(&t_);
    return absl::OkStatus();
  }

 private:
  // Maps (id, distance) of a dependency to true if the action also waits for detached steps.
  using Deps = std::map<std::pair<int, int>, bool>;

  absl::Status FindEnd() {
    for (int a = 0; a < t_.body_size(); ++a) {
      const ActionKind kind = t_.body(a).kind();
      if (kind == OPTIMIZER_STEP) {
        if (optimizer_ >= 0) return Refuse("template '", t_.name(), "' has several optimizer steps in a repetition");
        optimizer_ = a;
      }
      if (kind == GRAD_NORM) norm_ = a;
      clips_ = clips_ || kind == SCALE_GRADIENTS;
      by_id_[t_.body(a).id()] = a;
    }
    return absl::OkStatus();
  }

  int BufferOf(int value) const { return operands_[whole_.values(value).operand()]; }

  absl::Status FindUpdates() {
    std::map<std::pair<int, int>, int> host;
    for (int b = 0; b < t_.buffers_size(); ++b) {
      if (t_.buffers(b).place() == HOST) host[{t_.buffers(b).role(), t_.buffers(b).tensor()}] = b;
    }
    std::map<int, int> by_gradient;
    for (int i = 0; i < whole_.steps_size(); ++i) {
      const Step& step = whole_.steps(i);
      if (step.stream() != COMPUTE || step.detached())
        return Refuse("the optimizer step of '", t_.name(), "' uses several streams");
      if (!kernels::IsOptimizer(step.kernel())) continue;
      TensorUpdate update;
      update.step = i;
      const int states = kernels::OptimizerStates(step);
      update.tensor = t_.buffers(BufferOf(step.outputs(0))).tensor();
      for (int k = 0; k < states; ++k) {
        const auto found = host.find({k == 0 ? MASTER : k == 1 ? MOMENT1 : MOMENT2, update.tensor});
        if (found == host.end() || whole_.values(step.outputs(k)).offset() != 0) {
          return Refuse("step '", step.name(), "' of '", t_.name(),
                        "' updates a buffer that is not the state of a tensor");
        }
        update.states.push_back(found->second);
      }
      update.elements = ElementCount(whole_.values(step.outputs(0)).shape()).value_or(0);
      const auto chunk = sums_.last_sum.find(update.tensor);
      if (chunk != sums_.last_sum.end()) update.chunk = chunk->second;
      by_gradient[BufferOf(step.inputs(0))] = static_cast<int>(updates_.size());
      first_ = std::min(first_, i);
      updates_.push_back(std::move(update));
    }
    for (int i = 0; i < whole_.steps_size(); ++i) {
      const Step& step = whole_.steps(i);
      if (step.kernel() != FILL) continue;
      const auto found = by_gradient.find(BufferOf(step.outputs(0)));
      if (found == by_gradient.end()) continue;
      TensorUpdate& update = updates_[found->second];
      const Value &zero = whole_.values(step.outputs(0)),
                  &gradient = whole_.values(whole_.steps(update.step).inputs(0));
      if (zero.offset() == gradient.offset() && ElementCount(zero.shape()) == update.elements) update.zero = i;
    }
    return absl::OkStatus();
  }

  // If a collective gathers weights directly from the optimizer's own copy (ZeRO), that copy is now in host memory.
  // This makes the collective read a new copy on the device instead.
  void GatherFromDevice() {
    for (Action& action : *t_.mutable_body()) {
      if (!IsCollective(action.kind())) continue;
      for (int& source : *action.mutable_sources()) {
        if (t_.buffers(source).place() != HOST) continue;
        Buffer copy = t_.buffers(source);
        copy.set_name(absl::StrCat("new ", copy.name()));
        copy.set_class_(COMMUNICATION);
        copy.set_place(DEVICE);
        copy.set_persistent(false);
        copy.clear_role();
        copy.clear_tensor();
        copy.clear_use();
        copy.clear_shard();
        copy.set_offset((t_.device_arena_bytes() + kArena - 1) / kArena * kArena);
        t_.set_device_arena_bytes(copy.offset() + copy.bytes());
        *t_.add_buffers() = std::move(copy);
        gathered_[source] = t_.buffers_size() - 1;
        source = t_.buffers_size() - 1;
        action.add_releases(source);
      }
    }
  }

  // Returns the steps of the optimizer's segment that belong to no update. If `before` is true, returns those before
  // the first update whose results the updates read. Otherwise returns the rest.
  BoundSegment Rest(bool before) const {
    std::set<int> taken, read;
    for (const TensorUpdate& update : updates_) {
      taken.insert(update.step);
      taken.insert(update.zero);
      for (int value : whole_.steps(update.step).inputs()) read.insert(whole_.values(value).operand());
    }
    int i = -1;
    return PartOf(whole_, operands_, absl::StrCat(Prefix(), before ? ".before_buckets" : ".after_buckets"),
                  [&](const Step& step) {
                    ++i;
                    if (taken.contains(i)) return false;
                    const bool needed =
                        i < first_ && std::any_of(
                                          step.outputs().begin(), step.outputs().end(),
                                          [&](int v) { return read.contains(whole_.values(v).operand()); });
                    return needed == before;
                  });
  }
  std::string Prefix() const { return whole_.name().substr(0, whole_.name().find('.')); }

  // Returns the tensor whose gradient a step of grad_norm reads; -1 if it is unknown.
  int TensorOf(const Segment& segment, const std::vector<int>& operands, const Step& step) const {
    for (const auto* values : {&step.inputs(), &step.outputs()}) {
      for (int v : *values) {
        const int b = operands[segment.values(v).operand()];
        if (const auto of = sums_.tensor_of.find(b); of != sums_.tensor_of.end()) return of->second;
        if (!t_.buffers(b).persistent()) return -1;
      }
    }
    return -1;
  }

  // Returns the parts of grad_norm by chunk. Empty if the optimizer cannot step chunk by chunk: gradients are clipped,
  // no action computes grad_norm, an update reads the result of another step, a step of grad_norm belongs to no known
  // chunk, or there is only one chunk.
  std::vector<std::pair<int, BoundSegment>> Chunks() const {
    if (clips_ || norm_ < 0 || !Rest(true).segment.steps().empty()) return {};
    std::map<int, int> chunk_of;
    std::set<int> chunks;
    for (const TensorUpdate& update : updates_) {
      chunk_of[update.tensor] = update.chunk;
      chunks.insert(update.chunk);
    }
    if (chunks.size() < 2) return {};
    const Segment& norm = program_.segments(t_.body(norm_).segment());
    const std::vector<int> operands(t_.body(norm_).operands().begin(), t_.body(norm_).operands().end());
    for (const Step& step : norm.steps()) {
      if (!chunk_of.contains(TensorOf(norm, operands, step))) return {};
    }
    std::vector<std::pair<int, BoundSegment>> parts;
    for (int chunk : chunks) {
      parts.emplace_back(
          chunk, PartOf(norm, operands, absl::StrCat(Prefix(), ".grad_norm", parts.size()),
                        [&](const Step& step) { return chunk_of.at(TensorOf(norm, operands, step)) == chunk; }));
    }
    return parts;
  }

  int AddSegment(Segment segment) {
    *program_.add_segments() = std::move(segment);
    return program_.segments_size() - 1;
  }

  Action& Compute(ActionKind kind, const std::string& name, BoundSegment bound) {
    Action& action = body_.emplace_back();
    action.set_id(next_++);
    action.set_kind(kind);
    action.set_name(name);
    action.set_stage(t_.body(optimizer_).stage());
    for (int b : bound.operands) action.add_operands(b);
    action.set_segment(AddSegment(std::move(bound.segment)));
    return action;
  }

  // Returns the dependencies of `action`, which replaces a part of `original`. If `original` waits for a sum that
  // `action` does not use, `action` waits for the dependencies of that sum instead. This is done only for sums whose
  // buffers are all persistent or parts of gradients, because these live until the last step.
  Deps DepsOf(const Action& action, const Action& original) const {
    const std::set<int> used(action.operands().begin(), action.operands().end());
    std::set<int> passed;
    Deps deps;
    AddDepsOf(used, original, &passed, &deps);
    return deps;
  }
  void AddDepsOf(const std::set<int>& used, const Action& original, std::set<int>* passed, Deps* deps) const {
    for (const Dependency& dep : original.deps()) {
      const Action& on = t_.body(by_id_.at(dep.action()));
      bool other = dep.distance() == 0 && IsCollective(on.kind());
      for (const auto* buffers : {&on.sources(), &on.destinations()}) {
        for (int b : *buffers) {
          other = other && (t_.buffers(b).persistent() || sums_.tensor_of.contains(b)) && !used.contains(b);
        }
      }
      if (!other) {
        (*deps)[{dep.action(), dep.distance()}] |= dep.detached();
      } else if (on.purpose() != NORM_SYNC && passed->insert(dep.action()).second) {
        // Adds no dependency for the collective that sums the norms, because it comes after the last part of grad_norm.
        AddDepsOf(used, on, passed, deps);
      }
    }
  }
  static void AddDeps(const Deps& deps, Action* action) {
    for (const auto& [on, detached] : deps) AddDependency(on.first, on.second, detached, action);
  }
  // Makes action `index` of the new body, the last action that replaces `original`, take over `original`'s dependencies
  // and releases. Actions that waited for `original` then wait for this action.
  void TakeOver(const Action& original, int index) {
    Action& last = body_[index];
    for (const Dependency& dep : original.deps()) AddDependency(dep.action(), dep.distance(), dep.detached(), &last);
    for (int b : original.releases()) last.add_releases(b);
    becomes_[original.id()] = last.id();
  }

  void MakeBody() {
    const Action optimizer = t_.body(optimizer_);
    std::vector<std::pair<int, BoundSegment>> chunks = Chunks();
    BoundSegment before = Rest(true), after = Rest(false);
    int last = -1;
    for (int a = 0; a < t_.body_size(); ++a) {
      if (a == norm_ && !chunks.empty()) {
        int last_norm = -1;
        for (size_t c = 0; c < chunks.size(); ++c) {
          auto& [chunk, part] = chunks[c];
          if (!part.segment.steps().empty()) {
            const Action& original = t_.body(norm_);
            Action& norm = Compute(GRAD_NORM, absl::StrCat(original.name(), " part ", c), std::move(part));
            AddDeps(DepsOf(norm, original), &norm);
            last_norm = static_cast<int>(body_.size()) - 1;
          }
          AddBuckets(chunk, false);
        }
        TakeOver(t_.body(norm_), last_norm);
      } else if (a == optimizer_) {
        if (!before.segment.steps().empty()) {
          Action& first = Compute(OPTIMIZER_STEP, absl::StrCat(optimizer.name(), " before buckets"), std::move(before));
          AddDeps(DepsOf(first, optimizer), &first);
          last = static_cast<int>(body_.size()) - 1;
        }
        if (chunks.empty()) AddBuckets(0, true);
        if (!after.segment.steps().empty()) {
          Compute(OPTIMIZER_STEP, optimizer.name(), std::move(after));
          last_step_ = static_cast<int>(body_.size()) - 1;
        }
        TakeOver(optimizer, std::max(last, last_step_));
      } else {
        body_.push_back(t_.body(a));
      }
    }
    WaitForBuckets();
    PlaceCopies();
  }

  // Adds the buckets for the tensors of one chunk, or for all tensors if `all` is true.
  void AddBuckets(int chunk, bool all) {
    std::vector<int> mine;
    std::vector<int64_t> elements;
    for (int u = 0; u < static_cast<int>(updates_.size()); ++u) {
      if (!all && updates_[u].chunk != chunk) continue;
      mine.push_back(u);
      elements.push_back(updates_[u].elements);
    }
    for (const Bucket& bucket : CutIntoBuckets(elements, capacity_)) AddBucket(bucket, mine);
  }

  void AddBucket(const Bucket& bucket, const std::vector<int>& mine) {
    const int number = static_cast<int>(offloads_.size());
    const std::string name = absl::StrCat(" s", t_.body(optimizer_).stage(), " bucket ", number);
    const int device = AddCopyBuffer(bucket, mine, number);
    BoundSegment fetch, step, back;
    fetch.segment.set_name(absl::StrCat(Prefix(), ".fetch", number));
    step.segment.set_name(absl::StrCat(Prefix(), ".optimizer_step", number));
    back.segment.set_name(absl::StrCat(Prefix(), ".offload", number));
    const BucketSteps steps(t_, whole_, operands_, gathered_);
    for (const BucketPiece& piece : bucket.pieces) {
      steps.Add(bucket, piece, updates_[mine[piece.tensor]], device, &fetch, &step, &back);
    }
    for (BoundSegment* segment : {&fetch, &step, &back}) SetAccess(t_, segment);
    Action& comes = Compute(FETCH, absl::StrCat("fetch", name), std::move(fetch));
    const int fetch_id = comes.id();
    if (number >= kBucketsOnDevice) AddDependency(body_[offloads_[number - kBucketsOnDevice]].id(), 0, false, &comes);
    fetches_.push_back(static_cast<int>(body_.size()) - 1);
    Action& stepped = Compute(OPTIMIZER_STEP, absl::StrCat("optimizer", name), std::move(step));
    const int step_id = stepped.id();
    AddDeps(DepsOf(stepped, t_.body(optimizer_)), &stepped);
    AddDependency(fetch_id, 0, false, &stepped);
    last_step_ = static_cast<int>(body_.size()) - 1;
    Action& goes = Compute(OFFLOAD, absl::StrCat("offload", name), std::move(back));
    AddDependency(step_id, 0, false, &goes);
    goes.add_releases(device);
    offloads_.push_back(static_cast<int>(body_.size()) - 1);
  }

  // The first fetches wait for the last offload of the previous repetition.
  void WaitForBuckets() {
    for (int number = 0; number < static_cast<int>(fetches_.size()) && number < kBucketsOnDevice; ++number) {
      AddDependency(body_[offloads_.back()].id(), 1, false, &body_[fetches_[number]]);
    }
  }

  // Places the copies after all other buffers. The copies take turns in kBucketsOnDevice places.
  void PlaceCopies() {
    int64_t place = 0;
    for (int b : copies_) place = std::max(place, (t_.buffers(b).bytes() + kArena - 1) / kArena * kArena);
    const int64_t base = (t_.device_arena_bytes() + kArena - 1) / kArena * kArena;
    for (size_t i = 0; i < copies_.size(); ++i) {
      t_.mutable_buffers(copies_[i])->set_offset(base + static_cast<int64_t>(i % kBucketsOnDevice) * place);
    }
    t_.set_device_arena_bytes(base + std::min<int64_t>(kBucketsOnDevice, copies_.size()) * place);
  }

  int64_t BytesPerElement(const TensorUpdate& update) const {
    int64_t bytes = 0;
    for (int b : update.states) bytes += DTypeBytes(t_.buffers(b).dtype());
    return bytes;
  }

  // Adds the buffer for a bucket's copy on the device: all its weights, then all first moments, and so on.
  int AddCopyBuffer(const Bucket& bucket, const std::vector<int>& mine, int number) {
    int64_t each = 0;
    for (const BucketPiece& piece : bucket.pieces) each = std::max(each, BytesPerElement(updates_[mine[piece.tensor]]));
    Buffer& copy = *t_.add_buffers();
    copy.set_name(absl::StrCat("bucket ", number));
    copy.set_class_(OPTIMIZER);
    copy.set_bytes(bucket.elements * each);
    copies_.push_back(t_.buffers_size() - 1);
    return copies_.back();
  }

  const int64_t capacity_;
  Program& program_;
  Template& t_;
  // Indices of the optimizer step and the gradient norm in the old body.
  int optimizer_ = -1, norm_ = -1;
  bool clips_ = false;
  std::map<int, int> by_id_;
  // The optimizer's segment, and the buffers bound to its operands.
  Segment whole_;
  std::vector<int> operands_;
  std::vector<TensorUpdate> updates_;
  const GradientSums sums_;
  // Maps a buffer in host memory to its copy on the device, which a collective reads.
  std::map<int, int> gathered_;
  // Index of the first update in the optimizer's segment.
  int first_ = 1 << 30;
  std::vector<Action> body_;
  // Maps the id of a replaced action to the id of the action that other actions now wait for instead.
  std::map<int, int> becomes_;
  int next_ = 0;
  // For each bucket: the index of its fetch and of its offload in the new body, and its copy buffer. `last_step_` is
  // the index of the last optimizer step.
  std::vector<int> fetches_, offloads_, copies_;
  int last_step_ = -1;
};

}  // namespace

absl::Status OffloadOptimizer(const Offload& offload, Program* program) {
  if (program->steps_per_repetition() > 0) {
    return Refuse("schedule '", program->schedule(), "' updates the weights without a flush; use one that flushes");
  }
  MoveStatesToHost(program);
  if (absl::Status status = CheckBucketCount(offload, *program); !status.ok()) return status;
  for (Template& t : *program->mutable_templates()) {
    if (absl::Status status = TemplateRewriter(offload, program, &t).Run(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace weft
