#include "verifier/testing/schedule_program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/util/units.h"
#include "verifier/testing/schedule_program_segments.h"

namespace weft {
namespace {

struct Slot {
  char kind = 'F';
  int stage = 0, m = 0, width = 1;
  int back_stage = -1, back_m = -1;  // Backward of a pair.
};

Slot ParseSlot(const std::string& text) {
  Slot slot;
  slot.kind = text[0];
  const int read = std::sscanf(text.c_str() + 1, slot.kind == 'P' ? "%d.%d+%d.%d" : "%d.%dx%d", &slot.stage, &slot.m,
                               slot.kind == 'P' ? &slot.back_stage : &slot.width, &slot.back_m);
  if (read < 2) std::abort();
  return slot;
}

class Builder : private StageSegments {
 public:
  explicit Builder(const ScheduleSpec& spec) : StageSegments(spec) {
    for (const std::string& order : spec.order) {
      for (const std::string& text : std::vector<std::string>(absl::StrSplit(order, ' ', absl::SkipEmpty()))) {
        const Slot slot = ParseSlot(text);
        if (slot.kind != 'F' && slot.kind != 'P') continue;
        for (int j = 0; j < slot.width; ++j) group_[slot.m + j] = {slot.m, slot.width};
      }
    }
  }

  Program Build() {
    Header();
    for (int rank = 0; rank < ranks_; ++rank) MakeTemplate(rank);
    return p_;
  }

 private:
  // --- templates

  struct User {
    int action = 0;
    bool writes = false;
  };

  int BufferOf(const std::string& name, BufferClass cls, DType dtype, const Shape& shape, int64_t bytes) {
    const auto [it, fresh] = buffers_.emplace(name, t_->buffers_size());
    if (!fresh) return it->second;
    Buffer& b = *t_->add_buffers();
    b.set_name(name);
    b.set_class_(cls);
    b.set_dtype(dtype);
    b.mutable_shape()->Assign(shape.begin(), shape.end());
    b.set_bytes(dtype == DTYPE_UNSPECIFIED ? bytes : Bytes(dtype, shape));
    b.set_offset(top_);
    top_ = RoundUp(top_ + b.bytes(), 256);
    users_.emplace_back();
    return it->second;
  }

  void Persistent(const std::string& name, BufferClass cls, DType dtype, const Shape& shape, BufferRole role,
                  int tensor = 0, int use = 0) {
    Buffer& b = *t_->mutable_buffers(BufferOf(name, cls, dtype, shape, 0));
    b.set_persistent(true);
    b.set_role(role);
    b.set_tensor(tensor);
    b.set_use(use);
  }

  Action& Add(ActionKind kind, const std::string& name, int stage, int m, int lane) {
    Action& a = *t_->add_body();
    a.set_id(t_->body_size() - 1);
    a.set_kind(kind);
    a.set_name(name);
    a.set_stage(stage);
    a.set_microbatch(m);
    a.set_lane(lane);
    return a;
  }
  void Dep(Action& a, int on, int distance = 0) {
    for (const Dependency& dep : a.deps()) {
      if (dep.action() == on && dep.distance() == distance) return;
    }
    Dependency& d = *a.add_deps();
    d.set_action(on);
    d.set_distance(distance);
  }
  // Records that the action uses the buffer. If the buffer is transient, makes the action wait for its writers.
  void Use(Action& a, int buffer, bool writes) {
    if (!t_->buffers(buffer).persistent()) {
      for (const User& user : users_[buffer]) {
        if (user.writes) Dep(a, user.action);
      }
    }
    users_[buffer].push_back({a.id(), writes});
  }

  std::string Name(const std::string& what, int m) const { return absl::StrCat(what, " m", m); }
  bool PerMicrobatch(const std::string& operand) const {
    return !buffers_.contains(operand) || !t_->buffers(buffers_.at(operand)).persistent();
  }

  // Adds a compute action. `micro[i]` is the microbatch in the name of the buffer of operand i.
  Action& Compute(ActionKind kind, const std::string& name, int stage, int m, int lane, Draft& d,
                  const std::string& segment, const std::vector<int>& micro) {
    Action& a = Add(kind, name, stage, m, lane);
    a.set_segment(AddSegment(d, segment));
    for (int i = 0; i < d.segment.operands_size(); ++i) {
      const Operand& o = d.segment.operands(i);
      int buffer = -1;
      if (!PerMicrobatch(d.operands[i])) {
        buffer = buffers_.at(d.operands[i]);
      } else {
        // A buffer that passes a tensor between stages has one value, so it gets that value's dtype and shape.
        const Value* only = nullptr;
        int count = 0;
        for (const Value& v : d.segment.values()) {
          if (v.operand() == i) only = &v, ++count;
        }
        const std::string& what = d.operands[i];
        const bool tensor = count == 1 && what[0] != 'w' && what[0] != 'h' && what.find("saved") == std::string::npos;
        const BufferClass cls = what[0] == 'w'                            ? WORKSPACE
                                : what[0] == 'h'                          ? SAVED_GRADIENT
                                : what.find("saved") == std::string::npos ? IN_FLIGHT_ACTIVATION
                                                                          : SAVED_ACTIVATION;
        const std::string own = what == "work" ? absl::StrCat("work of ", name) : Name(what, micro[i]);
        buffer = BufferOf(own, cls, tensor ? only->dtype() : DTYPE_UNSPECIFIED,
                          tensor ? Shape(only->shape().begin(), only->shape().end()) : Shape{}, o.bytes());
      }
      a.add_operands(buffer);
      Use(a, buffer, o.access() != READ);
    }
    return a;
  }

  struct Message {
    std::string what;  // Name of the buffer.
    std::string name;
    int stage = 0, peer_stage = 0, skip = 0;
    Direction direction = TOWARDS_LOSS;
  };
  int RankOf(int m, int stage) const { return spec_.placement[spec_.lane[m]][stage]; }

  void Move(ActionKind kind, const Message& message, int m, int width) {
    const int peer = RankOf(m, message.peer_stage);
    if (peer == rank_) return;
    const int buffer = BufferOf(Name(message.what, m), IN_FLIGHT_ACTIVATION, FP32, {width * kRows, kColumns}, 0);
    Action& a = Add(kind, Name(absl::StrCat(kind == SEND ? "send " : "recv ", message.name), m), message.stage, m,
                    spec_.lane[m]);
    a.set_direction(message.direction);
    a.set_skip(message.skip);
    if (width > 1) a.set_width(width);
    Coordinate& at = *a.mutable_peer()->add_at();
    at.set_axis("pipe");
    at.set_index(peer);
    (kind == SEND ? a.mutable_sources() : a.mutable_destinations())->Add(buffer);
    Use(a, buffer, kind == RECV);
  }

  // The messages that a forward or backward of the stage receives (`in`) or sends.
  std::vector<Message> Messages(bool forward, bool in, int s) const {
    std::vector<Message> list;
    const std::string suffix = absl::StrCat(" s", s);
    const Direction direction = forward ? TOWARDS_LOSS : FROM_LOSS;
    const int peer = forward == in ? s - 1 : s + 1;
    if (peer >= 0 && peer < stages_) {
      const std::string what = forward ? Out(in ? s - 1 : s) : Din(in ? s + 1 : s);
      list.push_back({what, absl::StrCat(forward ? "F" : "B", suffix), s, peer, 0, direction});
    }
    for (int i = 0; i < p_.skips_size(); ++i) {
      const int here = forward == in ? p_.skips(i).to_stage() : p_.skips(i).from_stage();
      const int there = forward == in ? p_.skips(i).from_stage() : p_.skips(i).to_stage();
      const std::string what = absl::StrCat(forward ? "skip" : "dskip", i);
      if (here == s) list.push_back({what, what, s, there, i + 1, direction});
    }
    return list;
  }

  void AddSlot(const Slot& slot) {
    const int lane = spec_.lane[slot.m];
    const bool forward = slot.kind == 'F' || slot.kind == 'P';
    if (forward) {
      for (const Message& in : Messages(true, true, slot.stage)) Move(RECV, in, slot.m, slot.width);
    }
    const int bs = slot.kind == 'P' ? slot.back_stage : slot.stage, bm = slot.kind == 'P' ? slot.back_m : slot.m;
    const bool input = slot.kind == 'B' || slot.kind == 'I' || slot.kind == 'P';
    if (input) {
      for (const Message& in : Messages(false, true, bs)) Move(RECV, in, bm, 1);
    }
    const std::string name = absl::StrCat(std::string(1, slot.kind), " s", slot.stage, " m", slot.m);
    if (slot.kind == 'F') {
      Draft d = Forward(slot.stage, slot.width);
      Action& a = Compute(FORWARD, name, slot.stage, slot.m, lane, d, absl::StrCat("F", slot.stage, "x", slot.width),
                          std::vector<int>(d.operands.size(), slot.m));
      if (slot.width > 1) a.set_width(slot.width);
    } else {
      const auto [first, width] = group_.at(bm);
      Draft back = Backward(slot.kind == 'P' ? 'B' : slot.kind, bs, width, bm - first);
      std::vector<int> micro;
      for (const std::string& operand : back.operands) {
        micro.push_back(operand.find("saved") == 0 ? first : bm);
      }
      const std::string segment =
          absl::StrCat(std::string(1, slot.kind), bs, width > 1 ? absl::StrCat(" part", bm - first) : "");
      if (slot.kind != 'P') {
        Compute(slot.kind == 'B'   ? BACKWARD
                : slot.kind == 'I' ? BACKWARD_INPUT
                                   : BACKWARD_WEIGHT,
                name, slot.stage, slot.m, lane, back, segment, micro);
      } else {
        const Draft one = Forward(slot.stage, 1);
        Draft d = Pair(one, back);
        micro.insert(micro.begin(), one.operands.size(), slot.m);
        Action& a = Compute(FORWARD_BACKWARD, name, slot.stage, slot.m, lane, d,
                            absl::StrCat(segment, " of F", slot.stage), micro);
        a.mutable_backward()->set_stage(bs);
        a.mutable_backward()->set_microbatch(bm);
        a.mutable_backward()->set_lane(spec_.lane[bm]);
      }
    }
    if (forward) {
      for (const Message& out : Messages(true, false, slot.stage)) Move(SEND, out, slot.m, slot.width);
    }
    if (input) {
      for (const Message& out : Messages(false, false, bs)) Move(SEND, out, bm, 1);
    }
  }

  // --- the end of the step

  std::set<int> Holders(int stage) const {
    std::set<int> ranks;
    for (const std::vector<int>& lane : spec_.placement) ranks.insert(lane[stage]);
    return ranks;
  }
  // Stages that use a tensor, in model order.
  std::vector<int> Uses(int tensor) const {
    const std::string name = p_.tensors(tensor).name();
    if (name == "wte") return spec_.tied ? std::vector<int>{0, stages_ - 1} : std::vector<int>{0};
    return {name == "head" ? stages_ - 1 : std::atoi(name.c_str() + 1)};
  }
  std::set<int> Ranks(int tensor) const {
    std::set<int> ranks;
    for (int stage : Uses(tensor)) {
      for (int rank : Holders(stage)) ranks.insert(rank);
    }
    return ranks;
  }
  enum Sharing { kHere, kInOrder, kEverywhere };
  Sharing SharingOf(int tensor) const {
    const std::vector<int> uses = Uses(tensor);
    if (uses.size() == 1 || Ranks(tensor).size() == 1) return kHere;
    const bool single = Holders(uses[0]).size() == 1 && Holders(uses[1]).size() == 1;
    return single && *Holders(uses[0]).begin() < *Holders(uses[1]).begin() ? kInOrder : kEverywhere;
  }
  std::vector<int> UsesOnRank(int tensor) const {
    std::vector<int> uses;
    for (int u = 0; u < static_cast<int>(Uses(tensor).size()); ++u) {
      if (SharingOf(tensor) == kEverywhere || Holders(Uses(tensor)[u]).contains(rank_)) uses.push_back(u);
    }
    return uses;
  }
  Shape ShapeOf(int tensor) const { return {p_.tensors(tensor).shape().begin(), p_.tensors(tensor).shape().end()}; }
  std::string Gradient(int tensor, int use) const { return GradientOf(p_.tensors(tensor).name(), use); }

  void Reduce(const std::string& name, Purpose purpose, const std::set<int>& pipes, std::vector<std::string> sources,
              std::vector<std::string> destinations, bool data = true) {
    Action& a = Add(ALL_REDUCE, name, 0, 0, 0);
    if (static_cast<int>(pipes.size()) > 1) {
      AxisSubset& subset = *a.mutable_group()->add_axes();
      subset.set_axis("pipe");
      for (int pipe : pipes) subset.add_indices(pipe);
    }
    if (data) a.mutable_group()->add_axes()->set_axis("data");
    a.set_purpose(purpose);
    a.set_algorithm("ring");
    for (const std::string& s : sources) a.add_sources(buffers_.at(s));
    for (const std::string& d : destinations) a.add_destinations(buffers_.at(d));
  }

  void EndOfStep() {
    // Number of actions before the end of the step.
    const int compute = t_->body_size();
    std::vector<int> held;
    for (int i = 0; i < p_.tensors_size(); ++i) {
      if (Ranks(i).contains(rank_)) held.push_back(i);
    }
    for (int tensor : held) {
      const Sharing sharing = SharingOf(tensor);
      for (int use : UsesOnRank(tensor)) {
        const std::string g = Gradient(tensor, use);
        const std::set<int> holders = Holders(Uses(tensor)[use]);
        const std::string suffix = absl::StrCat(" ", p_.tensors(tensor).name(), " ", use);
        if (sharing == kEverywhere) {
          Reduce("tied" + suffix, TIED_SYNC, Ranks(tensor), {g}, {g});
        } else if (holders.size() > 1 || spec_.data > 1) {
          Reduce("sync" + suffix, GRADIENT_SYNC, holders, {g}, {g});
        }
      }
      if (sharing == kInOrder) {
        const std::string g = Gradient(tensor, UsesOnRank(tensor)[0]);
        Reduce("tied " + p_.tensors(tensor).name(), TIED_SYNC, Ranks(tensor), {g}, {g}, false);
        Dep(*t_->mutable_body(t_->body_size() - 1), t_->body_size() - 2);
      }
    }
    std::set<int> all;
    for (int r = 0; r < ranks_; ++r) all.insert(r);
    const int synced = t_->body_size();
    for (int i = compute; i < synced; ++i) {
      for (int j = 0; j < compute; ++j) Dep(*t_->mutable_body(i), j);
    }
    Draft norm = Norm(held);
    // A rank whose tensors are all counted on other ranks may have nothing to do.
    if (norm.segment.steps_size() > 0) End("norm", GRAD_NORM, std::move(norm), synced);
    if (ranks_ > 1) {
      Reduce("norm sync", NORM_SYNC, all, {"local norms"}, {"norms"}, false);
      Dep(*t_->mutable_body(t_->body_size() - 1), t_->body_size() - 2);
    }
    End("scale", SCALE_GRADIENTS, Scale(held), t_->body_size());
    Reduce("loss sync", LOSS_SYNC, all, {"local losses"}, {"losses"});
    for (int j = 0; j < compute; ++j) Dep(*t_->mutable_body(t_->body_size() - 1), j);
    End("optimizer", OPTIMIZER_STEP, Optimizer(held), t_->body_size());
    // All actions wait for the last of the repetition before, so repetitions do not overlap.
    const int last = t_->body_size() - 1;
    for (int i = 0; i < last; ++i) Dep(*t_->mutable_body(i), last, 1);
  }

  void End(const std::string& name, ActionKind kind, Draft d, int behind) {
    Action& a = Compute(kind, name, *Stages().begin(), 0, 0, d, absl::StrCat(name, " ", rank_),
                        std::vector<int>(d.operands.size(), 0));
    for (int i = 0; i < behind; ++i) Dep(a, i);
  }
  std::set<int> Stages() const {
    std::set<int> stages;
    for (const std::vector<int>& lane : spec_.placement) {
      for (int s = 0; s < stages_; ++s) {
        if (lane[s] == rank_) stages.insert(s);
      }
    }
    return stages;
  }

  // Returns the name of the buffer that holds the whole gradient after the sums: the gradient of the tensor's first use
  // on this rank.
  std::string Whole(int tensor) const {
    return absl::StrCat("d", p_.tensors(tensor).name(), " ", UsesOnRank(tensor)[0]);
  }

  // True if this rank counts the tensor's norm.
  bool Counts(int tensor) const { return *Holders(Uses(tensor)[0]).begin() == rank_; }

  Draft Norm(const std::vector<int>& held) {
    Draft d;
    if (std::any_of(held.begin(), held.end(), [&](int tensor) { return Counts(tensor); })) {
      d.AddTensor("local norms", {p_.tensors_size()}, READ_WRITE, FP64);
    }
    if (ranks_ == 1) d.AddTensor("norms", {p_.tensors_size()}, WRITE, FP64);
    for (int tensor : held) {
      const std::vector<int> uses = UsesOnRank(tensor);
      const std::string whole = Whole(tensor);
      if (Exact()) {
        for (int use : uses) d.AddTensor(Gradient(tensor, use), ShapeOf(tensor), READ_WRITE, EXACT192);
        d.AddTensor(whole, ShapeOf(tensor), WRITE);
        for (size_t u = 1; u < uses.size(); ++u) {
          d.Do(ADD, {Gradient(tensor, uses[0]), Gradient(tensor, uses[u])}, {Gradient(tensor, uses[0])});
        }
        d.Do(EXACT_ROUND, {Gradient(tensor, uses[0])}, {whole});
        for (int use : uses) d.Do(FILL, {}, {Gradient(tensor, use)});
      } else {
        if (uses.size() > 1 || Counts(tensor)) {
          d.AddTensor(whole, ShapeOf(tensor), uses.size() > 1 ? READ_WRITE : READ);
        }
        for (size_t u = 1; u < uses.size(); ++u) {
          d.AddTensor(Gradient(tensor, uses[u]), ShapeOf(tensor), READ_WRITE);
          d.Do(ADD, {whole, Gradient(tensor, uses[u])}, {whole});
          d.Do(FILL, {}, {Gradient(tensor, uses[u])});
        }
      }
      if (Counts(tensor)) {
        d.Do(SQUARED_NORM, {whole}, {"local norms"}).set_slot(tensor);
      }
    }
    if (ranks_ == 1) d.Do(CAST, {"local norms"}, {"norms"});
    return d;
  }
  Draft Scale(const std::vector<int>& held) {
    Draft d;
    d.AddTensor("norms", {p_.tensors_size()}, READ, FP64);
    d.AddTensor("norm", {2}, WRITE, FP64);
    d.Do(NORM_TOTAL, {"norms"}, {"norm"}).set_clip_norm(1);
    for (int tensor : held) {
      d.AddTensor(Whole(tensor), ShapeOf(tensor), READ_WRITE);
      d.Do(SCALE, {"norm", Whole(tensor)}, {Whole(tensor)});
    }
    return d;
  }
  Draft Optimizer(const std::vector<int>& held) {
    Draft d;
    for (int tensor : held) {
      const std::string& name = p_.tensors(tensor).name();
      d.AddTensor(Whole(tensor), ShapeOf(tensor), READ_WRITE);
      d.AddTensor(name, ShapeOf(tensor), READ_WRITE);
      d.Do(SGD_STEP, {Whole(tensor), name}, {name});
      d.Do(FILL, {}, {Whole(tensor)});
    }
    return d;
  }

  void MakeTemplate(int rank) {
    rank_ = rank;
    t_ = p_.add_templates();
    t_->set_name(absl::StrCat("pipe", rank));
    Coordinate& pin = *t_->add_pins();
    pin.set_axis("pipe");
    pin.set_index(rank);
    buffers_.clear();
    users_.clear();
    top_ = 0;
    for (int i = 0; i < p_.tensors_size(); ++i) {
      if (!Ranks(i).contains(rank)) continue;
      const std::string& name = p_.tensors(i).name();
      Persistent(name, PARAMETER, FP32, ShapeOf(i), PARAM, i);
      for (int use : UsesOnRank(i)) {
        if (Exact()) Persistent(Gradient(i, use), GRADIENT, EXACT192, ShapeOf(i), GRAD_ACCUMULATOR, i, use);
        Persistent(absl::StrCat("d", name, " ", use), GRADIENT, FP32, ShapeOf(i), GRAD, i, use);
      }
    }
    Persistent("local losses", COMMUNICATION, FP64, {n_ * spec_.data}, LOCAL_LOSSES);
    Persistent("losses", COMMUNICATION, FP64, {n_ * spec_.data}, LOSSES);
    Persistent("local norms", COMMUNICATION, FP64, {p_.tensors_size()}, LOCAL_NORMS);
    Persistent("norms", COMMUNICATION, FP64, {p_.tensors_size()}, NORMS);
    Persistent("norm", COMMUNICATION, FP64, {2}, NORM);
    for (const std::string& text :
         std::vector<std::string>(absl::StrSplit(spec_.order[rank], ' ', absl::SkipEmpty()))) {
      AddSlot(ParseSlot(text));
    }
    EndOfStep();
    if (spec_.group) GroupNeighbors();
    // The last action that uses a buffer releases it, and waits for all others that use it.
    for (int b = 0; b < t_->buffers_size(); ++b) {
      if (t_->buffers(b).persistent()) continue;
      Action& last = *t_->mutable_body(users_[b].back().action);
      for (const User& user : users_[b]) {
        if (user.action != last.id()) Dep(last, user.action);
      }
      last.add_releases(b);
    }
    t_->set_device_arena_bytes(top_);
  }

  void GroupNeighbors() {
    int group = 0;
    bool before = false;
    for (Action& a : *t_->mutable_body()) {
      const bool transfer = a.kind() == SEND || a.kind() == RECV;
      if (transfer && !before) ++group;
      if (transfer) a.set_transfer_group(group);
      before = transfer;
    }
  }

  std::map<int, std::pair<int, int>> group_;  // Microbatch -> (first, number) of its wide forward.
  // The template that is being made.
  int rank_ = 0;
  Template* t_ = nullptr;
  std::map<std::string, int> buffers_;
  std::vector<std::vector<User>> users_;
  int64_t top_ = 0;
};

}  // namespace

Program ScheduleProgram(const ScheduleSpec& spec) { return Builder(spec).Build(); }

}  // namespace weft
