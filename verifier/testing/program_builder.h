// Builds the programs of tests by hand: segments value by value, lists action by action. All parts are named.
#ifndef WEFT_VERIFIER_TESTING_PROGRAM_BUILDER_H_
#define WEFT_VERIFIER_TESTING_PROGRAM_BUILDER_H_

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/program.pb.h"
#include "proto/util/units.h"

namespace weft {

class ProgramBuilder {
 public:
  using Shape = std::vector<int64_t>;

 protected:
  static int64_t Bytes(DType dtype, const Shape& shape) { return *ElementCount(shape) * DTypeBytes(dtype); }

  void AddTensor(const char* name, Shape shape, Shape padded, int uses) {
    LogicalTensor& t = *p_.add_tensors();
    t.set_name(name);
    t.mutable_shape()->Assign(shape.begin(), shape.end());
    t.mutable_padded_shape()->Assign(padded.begin(), padded.end());
    t.set_uses(uses);
  }

  // --- segments

  void Begin(const std::string& name) {
    segment_ = p_.add_segments();
    segment_->set_name(name);
  }
  void Operand_(const std::string& name, int64_t bytes, Access access) {
    Operand& o = *segment_->add_operands();
    o.set_name(name);
    o.set_bytes(bytes);
    o.set_access(access);
  }
  // Adds a value to the last operand, at the next multiple of 64.
  void Val(const std::string& name, DType dtype, Shape shape) {
    const int operand = segment_->operands_size() - 1;
    int64_t offset = 0;
    for (const Value& other : segment_->values()) {
      if (other.operand() == operand) {
        offset = other.offset() + RoundUp(Bytes(other.dtype(), {other.shape().begin(), other.shape().end()}), 64);
      }
    }
    Value& v = *segment_->add_values();
    v.set_name(name);
    v.set_operand(operand);
    v.set_offset(offset);
    v.set_dtype(dtype);
    v.mutable_shape()->Assign(shape.begin(), shape.end());
    Operand& o = *segment_->mutable_operands(operand);
    o.set_bytes(std::max(o.bytes(), offset + Bytes(dtype, shape)));
  }
  // Adds an operand with one value of the same name.
  void Tensor(const std::string& name, DType dtype, Shape shape, Access access) {
    Operand_(name, 0, access);
    Val(name, dtype, shape);
  }
  Step* Do(Kernel kernel, const std::string& name, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    const auto find = [&](const std::string& value) {
      for (int i = 0; i < segment_->values_size(); ++i) {
        if (segment_->values(i).name() == value) return i;
      }
      std::fprintf(stderr, "no value %s\n", value.c_str());
      std::abort();
    };
    Step& s = *segment_->add_steps();
    s.set_name(name);
    s.set_kernel(kernel);
    for (const std::string& v : inputs) s.add_inputs(find(v));
    for (const std::string& v : outputs) s.add_outputs(find(v));
    s.mutable_work()->set_bytes(64);
    return &s;
  }

  // --- templates

  void BeginTemplate(const std::string& name) {
    t_ = p_.add_templates();
    t_->set_name(name);
    buffers_.clear();
    deps_.clear();
    releases_.clear();
    top_ = 0;
  }
  int AddBuffer(const std::string& name, BufferClass cls, DType dtype, Shape shape, int64_t bytes,
                int64_t offset = -1) {
    Buffer& b = *t_->add_buffers();
    b.set_name(name);
    b.set_class_(cls);
    b.set_dtype(dtype);
    b.mutable_shape()->Assign(shape.begin(), shape.end());
    b.set_bytes(dtype == DTYPE_UNSPECIFIED ? bytes : Bytes(dtype, shape));
    b.set_offset(offset >= 0 ? offset : top_);
    top_ = std::max(top_, RoundUp(b.offset() + b.bytes(), 256));
    return buffers_[name] = t_->buffers_size() - 1;
  }
  int Persistent(const std::string& name, BufferClass cls, DType dtype, Shape shape, BufferRole role, int tensor = 0,
                 int use = 0) {
    const int b = AddBuffer(name, cls, dtype, shape, 0);
    t_->mutable_buffers(b)->set_persistent(true);
    t_->mutable_buffers(b)->set_role(role);
    t_->mutable_buffers(b)->set_tensor(tensor);
    t_->mutable_buffers(b)->set_use(use);
    return b;
  }

  Action& Add(ActionKind kind, const std::string& name, int stage, int microbatch) {
    Action& a = *t_->add_body();
    a.set_id(t_->body_size() - 1);
    a.set_kind(kind);
    a.set_name(name);
    a.set_stage(stage);
    a.set_microbatch(microbatch);
    return a;
  }
  Action& Compute(ActionKind kind, const std::string& name, int stage, int microbatch, const std::string& segment,
                  std::vector<std::string> operands) {
    Action& a = Add(kind, name, stage, microbatch);
    for (int i = 0; i < p_.segments_size(); ++i) {
      if (p_.segments(i).name() == segment) a.set_segment(i);
    }
    for (const std::string& o : operands) a.add_operands(buffers_.at(o));
    return a;
  }
  Action& Move(ActionKind kind, const std::string& name, int stage, int m, Direction direction, int peer,
               const std::string& buffer) {
    Action& a = Add(kind, name, stage, m);
    a.set_direction(direction);
    Coordinate& at = *a.mutable_peer()->add_at();
    at.set_axis("pipe");
    at.set_index(peer);
    (kind == SEND ? a.mutable_sources() : a.mutable_destinations())->Add(buffers_.at(buffer));
    return a;
  }
  Action& Reduce(const std::string& name, int stage, Purpose purpose, std::vector<std::string> axes,
                 std::vector<std::string> sources, std::vector<std::string> destinations) {
    Action& a = Add(ALL_REDUCE, name, stage, 0);
    for (const std::string& axis : axes) a.mutable_group()->add_axes()->set_axis(axis);
    a.set_purpose(purpose);
    a.set_algorithm("ring");
    for (const std::string& s : sources) a.add_sources(buffers_.at(s));
    for (const std::string& d : destinations) a.add_destinations(buffers_.at(d));
    return a;
  }
  // Records a dependency between actions of this template, by name. The actions may be added to the list later.
  void Dep(const std::string& from, const std::string& on, int distance = 0, bool detached = false) {
    deps_.push_back({from, on, distance, detached});
  }
  void Release(const std::string& action, const std::string& buffer) { releases_.push_back({action, buffer}); }

  // Writes the dependencies and releases that Dep and Release noted.
  void EndTemplate() {
    t_->set_device_arena_bytes(top_);
    const auto find = [&](const std::string& name) -> Action& {
      for (Action& a : *t_->mutable_body()) {
        if (a.name() == name) return a;
      }
      std::fprintf(stderr, "no action %s\n", name.c_str());
      std::abort();
    };
    for (const DepName& dep : deps_) {
      Dependency& d = *find(dep.from).add_deps();
      d.set_action(find(dep.on).id());
      d.set_distance(dep.distance);
      d.set_detached(dep.detached);
    }
    for (const auto& [action, buffer] : releases_) find(action).add_releases(buffers_.at(buffer));
  }

  struct DepName {
    std::string from, on;
    int distance;
    bool detached;
  };
  Program p_;
  Segment* segment_ = nullptr;
  Template* t_ = nullptr;
  int64_t top_ = 0;
  std::map<std::string, int> buffers_;
  std::vector<DepName> deps_;
  std::vector<std::pair<std::string, std::string>> releases_;
};

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_PROGRAM_BUILDER_H_
