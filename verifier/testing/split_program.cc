#include "verifier/testing/split_program.h"

#include <string>
#include <vector>

#include "verifier/testing/program_builder.h"

namespace weft {
namespace {

constexpr int64_t kVocabulary = 12, kWidth = 4, kSequence = 4;

class Builder : private ProgramBuilder {
 public:
  Builder(bool zero, int64_t data, int microbatches, int layers, int64_t padded, int64_t z)
      : zero_(zero), data_(data), microbatches_(microbatches), layers_(layers), padded_(padded), z_(z) {}

  Program Build() {
    Header();
    Forward();
    Backward();
    EndOfStep();
    List();
    return p_;
  }

 private:
  void Header() {
    p_.set_name("split");
    for (const auto& [name, size] : {std::pair("x", int64_t{2}), std::pair("z", z_), std::pair("data", data_)}) {
      MeshAxis& a = *p_.mutable_mesh()->add_axes();
      a.set_name(name);
      a.set_size(size);
    }
    Recipe& r = *p_.mutable_recipe();
    r.set_sequence_length(kSequence);
    r.set_microbatch_sequences(z_);
    r.set_global_batch_sequences(z_ * microbatches_ * data_);
    r.set_clip_norm(1);
    r.mutable_sgd();
    p_.set_accumulation(IN_ORDER);
    p_.set_schedule("1f1b");
    p_.set_stages(1);
    p_.set_microbatches(microbatches_);
    p_.set_vocabulary(kVocabulary);
    AddTensor("wte", {kVocabulary, kWidth}, {padded_, kWidth}, 1);
    AddTensor("gamma", {kWidth}, {kWidth}, 1);
    AddTensor("beta", {kWidth}, {kWidth}, 1);
    AddTensor("head", {kVocabulary, kWidth}, {padded_, kWidth}, 1);
  }

  Step& Collect(Kernel kernel, const std::string& name, const std::string& axis, Purpose purpose,
                const std::string& from, const std::string& to) {
    Step& step = *Do(kernel, name, {from}, {to});
    step.clear_work();
    step.set_stream(COLLECTIVE);
    Collective& c = *step.mutable_collective();
    c.mutable_group()->add_axes()->set_axis(axis);
    c.set_purpose(purpose);
    c.set_algorithm("ring");
    return step;
  }
  void After(const std::string& step, const std::string& on) {
    int i = 0, from = -1, to = -1;
    for (const Step& s : segment_->steps()) {
      if (s.name() == step) from = i;
      if (s.name() == on) to = i;
      ++i;
    }
    segment_->mutable_steps(from)->add_deps(to);
  }
  void ShiftByRows(Step& step) const {
    ShiftTerm& term = *step.mutable_attributes()->mutable_column_shift()->add_terms();
    term.set_axis("x");
    term.set_stride(rows_);
  }

  // Adds a whole table to the workspace. Ranges over z are gathered into it or scattered from it, so it may need spare
  // elements.
  void Whole(const std::string& name) {
    Val(name, FP32, {rows_, kWidth});
    if (rounded_) View(name + " with room", name, 0, {z_ * range_});
  }
  std::string Room(const std::string& name) const { return rounded_ ? name + " with room" : name; }
  void View(const std::string& name, const std::string& of, int64_t offset, Shape shape) {
    Value view;
    for (const Value& value : segment_->values()) {
      if (value.name() == of) view = value;
    }
    view.set_name(name);
    view.set_offset(view.offset() + offset);
    view.mutable_shape()->Assign(shape.begin(), shape.end());
    *segment_->add_values() = view;
    Operand& o = *segment_->mutable_operands(view.operand());
    o.set_bytes(std::max(o.bytes(), view.offset() + Bytes(FP32, shape)));
  }
  // Adds an operand for a rank's range over z of a table or of its gradient. With ZeRO, it has spare elements for the
  // parts that replicas hold.
  void Ranges(const std::string& name, Access access) {
    Tensor(name, FP32, {range_}, access);
    segment_->mutable_operands(segment_->operands_size() - 1)->set_bytes(4 * RangeWithRoom());
  }
  int64_t RangeWithRoom() const { return zero_ ? (range_ + data_ - 1) / data_ * data_ : range_; }

  void Saved(Access access) {
    Operand_("saved", 0, access);
    Val("x", FP32, {kSequence, kWidth});
    Val("h", FP32, {kSequence, kWidth});
    Val("mean", FP32, {kSequence});
    Val("rstd", FP32, {kSequence});
    Val("logits", FP32, {kSequence, rows_});
    Val("lse", FP32, {kSequence});
    Val("targets", INT32, {kSequence});
  }

  void Forward() {
    Begin("F");
    Tensor("tokens", INT32, {kSequence}, WRITE);
    Ranges("wte", READ);
    Tensor("gamma", FP32, {kWidth}, READ);
    Tensor("beta", FP32, {kWidth}, READ);
    Ranges("head", READ);
    Saved(WRITE);
    Operand_("work", 0, WRITE);
    Whole("table");
    Whole("whole head");
    Val("partial", FP32, {kSequence, 2});
    Val("partials", FP32, {2 * kSequence, 2});
    Tensor("losses", FP64, {microbatches_ * data_}, READ_WRITE);

    Collect(GROUP_ALL_GATHER, "gather wte", "z", GATHER_WEIGHTS, "wte", Room("table"));
    Collect(GROUP_ALL_GATHER, "gather head", "z", GATHER_WEIGHTS, "head", Room("whole head"));
    Do(LOAD_TOKENS, "tokens", {}, {"tokens"});
    ShiftByRows(*Do(EMBEDDING, "embed", {"tokens", "table"}, {"x"}));
    After("embed", "gather wte");
    Collect(GROUP_ALL_REDUCE, "sum x", "x", TENSOR, "x", "x");
    After("sum x", "embed");
    for (int l = 0; l < layers_; ++l) {
      const std::string n = absl::StrCat(" ", l);
      Do(GELU, "gelu" + n, {"x"}, {"h"});
      if (l == 0) After("gelu 0", "sum x");
      Collect(GROUP_ALL_REDUCE, "sum" + n, "x", TENSOR, "h", "h");
      After("sum" + n, "gelu" + n);
      Do(ADD, "add" + n, {"x", "h"}, {"x"});
      After("add" + n, "sum" + n);
    }
    Do(LAYER_NORM, "norm", {"x", "gamma", "beta"}, {"h", "mean", "rstd"})->mutable_attributes()->set_epsilon(1e-5);
    After("norm", "sum x");
    Do(MATMUL, "head", {"h", "whole head"}, {"logits"})->mutable_attributes()->set_transpose_b(true);
    After("head", "gather head");
    Do(LOAD_TARGETS, "targets", {}, {"targets"});
    Step& part = *Do(CROSS_ENTROPY_PARTIAL, "loss part", {"logits", "targets"}, {"partial"});
    part.mutable_attributes()->set_vocabulary(kVocabulary);
    ShiftByRows(part);
    Collect(GROUP_ALL_GATHER, "loss parts", "x", TENSOR, "partial", "partials");
    After("loss parts", "loss part");
    Do(CROSS_ENTROPY_COMBINE, "loss", {"partials", "targets"}, {"lse", "losses"})
        ->mutable_attributes()
        ->set_loss_weight(1.0 / 16);
    After("loss", "loss parts");
  }

  void Backward() {
    Begin("B");
    Tensor("tokens", INT32, {kSequence}, READ);
    Tensor("gamma", FP32, {kWidth}, READ);
    Ranges("head", READ);
    Saved(READ);
    Ranges("dwte", READ_WRITE);
    Tensor("dgamma", FP32, {kWidth}, READ_WRITE);
    Tensor("dbeta", FP32, {kWidth}, READ_WRITE);
    Ranges("dhead", READ_WRITE);
    Operand_("work", 0, WRITE);
    Whole("whole head");
    Val("dlogits", FP32, {kSequence, rows_});
    Val("dh", FP32, {kSequence, kWidth});
    Val("dx", FP32, {kSequence, kWidth});
    for (const std::string whole : {"whole dwte", "whole dhead"}) {
      Whole(whole);
      // The elements of `whole` end at a multiple of 64 bytes, so a view may begin there.
      if (rounded_) View(whole + " end", whole, 4 * rows_ * kWidth, {z_ * range_ - rows_ * kWidth});
    }

    Collect(GROUP_ALL_GATHER, "gather head", "z", GATHER_WEIGHTS, "head", Room("whole head"));
    Step& loss = *Do(CROSS_ENTROPY_BACKWARD, "loss backward", {"logits", "lse", "targets"}, {"dlogits"});
    loss.mutable_attributes()->set_vocabulary(kVocabulary);
    loss.mutable_attributes()->set_loss_weight(1.0 / 16);
    ShiftByRows(loss);
    Do(MATMUL, "head input", {"dlogits", "whole head"}, {"dh"});
    After("head input", "gather head");
    Collect(GROUP_ALL_REDUCE, "sum dh", "x", TENSOR, "dh", "dh");
    After("sum dh", "head input");
    if (rounded_) Do(FILL, "zero end of whole dhead", {}, {"whole dhead end"});
    Do(MATMUL, "head weight", {"dlogits", "h"}, {"whole dhead"})->mutable_attributes()->set_transpose_a(true);
    Scatter("dhead", "head weight");
    Do(LAYER_NORM_BACKWARD_WEIGHT, "norm weight", {"dh", "x", "mean", "rstd"}, {"dgamma", "dbeta"})
        ->set_accumulate(true);
    After("norm weight", "sum dh");
    Do(LAYER_NORM_BACKWARD, "norm input", {"dh", "x", "gamma", "mean", "rstd"}, {"dx"});
    if (rounded_) Do(FILL, "zero end of whole dwte", {}, {"whole dwte end"});
    ShiftByRows(*Do(EMBEDDING_BACKWARD, "embed backward", {"tokens", "dx"}, {"whole dwte"}));
    Scatter("dwte", "embed backward");
  }
  void Scatter(const std::string& gradient, const std::string& after) {
    Step& step = Collect(GROUP_REDUCE_SCATTER, "scatter " + gradient, "z", SCATTER_GRADIENTS, Room("whole " + gradient),
                         gradient);
    step.set_accumulate(true);
    step.set_detached(true);
    After("scatter " + gradient, after);
  }

  struct Held {
    std::string name;
    bool table = false;
  };
  static std::vector<Held> AllHeld() { return {{"wte", true}, {"gamma"}, {"beta"}, {"head", true}}; }
  // Returns the shape of the part that the optimizer of a rank updates.
  Shape Part(const Held& held) const { return {!held.table ? kWidth : zero_ ? (range_ + data_ - 1) / data_ : range_}; }
  std::string Gradient(const Held& held) const { return (held.table && zero_ ? "part d" : "d") + held.name; }
  std::string Weight(const Held& held) const { return held.table && zero_ ? "master " + held.name : held.name; }

  void EndOfStep() {
    Begin("norm");
    for (const Held& held : AllHeld()) Tensor(Gradient(held), FP32, Part(held), READ);
    Tensor("norms", FP64, {4}, READ_WRITE);
    for (int i = 0; i < 4; ++i) {
      const Held held = AllHeld()[i];
      StepAttributes& a = *Do(SQUARED_NORM, "norm " + held.name, {Gradient(held)}, {"norms"})->mutable_attributes();
      a.set_slot(i);
      if (held.table) continue;
      for (const char* axis : {"x", "z"}) a.add_counted_once(axis);
      if (zero_) a.add_counted_once("data");
    }
    Begin("clip");
    Tensor("norms", FP64, {4}, READ);
    Tensor("norm", FP64, {2}, WRITE);
    for (const Held& held : AllHeld()) Tensor(Gradient(held), FP32, Part(held), READ_WRITE);
    Do(NORM_TOTAL, "total", {"norms"}, {"norm"})->mutable_attributes()->set_clip_norm(1);
    for (const Held& held : AllHeld()) {
      Do(SCALE, "scale " + held.name, {"norm", Gradient(held)}, {Gradient(held)});
    }
    Begin("optimizer");
    for (const Held& held : AllHeld()) {
      Tensor(Gradient(held), FP32, Part(held), held.table && zero_ ? READ : READ_WRITE);
      if (held.table && zero_) Ranges("d" + held.name, WRITE);
      Tensor(Weight(held), FP32, Part(held), READ_WRITE);
    }
    for (const Held& held : AllHeld()) {
      Do(SGD_STEP, "update " + held.name, {Gradient(held), Weight(held)}, {Weight(held)});
      Do(FILL, "zero " + held.name, {}, {"d" + held.name});
    }
  }

  void Cut(int buffer, bool over_data) {
    Shard& shard = *t_->mutable_buffers(buffer)->mutable_shard();
    shard.add_dimensions()->set_axis("x");
    shard.add_ranges()->set_axis("z");
    if (over_data) shard.add_ranges()->set_axis("data");
  }

  void List() {
    BeginTemplate("all");
    int tensor = 0;
    for (const Held& held : AllHeld()) {
      const Shape shape = {held.table ? range_ : kWidth};
      const int param = Persistent(held.name, PARAMETER, FP32, shape, PARAM, tensor);
      const int grad = Persistent("d" + held.name, GRADIENT, FP32, shape, GRAD, tensor);
      for (const int buffer : {param, grad}) {
        if (!held.table) continue;
        Cut(buffer, false);
        t_->mutable_buffers(buffer)->set_bytes(4 * RangeWithRoom());
        top_ = std::max(top_, RoundUp(t_->buffers(buffer).offset() + 4 * RangeWithRoom(), 256));
      }
      if (held.table && zero_)
        Cut(Persistent("master " + held.name, PARAMETER, FP32, Part(held), MASTER, tensor), true);
      ++tensor;
    }
    const Shape losses = {microbatches_ * data_};
    Persistent("local losses", COMMUNICATION, FP64, losses, LOCAL_LOSSES);
    Persistent("losses", COMMUNICATION, FP64, losses, LOSSES);
    Persistent("local norms", COMMUNICATION, FP64, {4}, LOCAL_NORMS);
    Persistent("norms", COMMUNICATION, FP64, {4}, NORMS);
    Persistent("norm", COMMUNICATION, FP64, {2}, NORM);
    const auto bytes = [&](int segment, const std::string& operand) {
      for (const Operand& o : p_.segments(segment).operands()) {
        if (o.name() == operand) return o.bytes();
      }
      return int64_t{0};
    };
    for (int m = 0; m < microbatches_; ++m) {
      const std::string n = absl::StrCat(m);
      AddBuffer("tokens" + n, SAVED_ACTIVATION, INT32, {kSequence}, 0);
      AddBuffer("saved" + n, SAVED_ACTIVATION, DTYPE_UNSPECIFIED, {}, bytes(0, "saved"));
      AddBuffer("F work" + n, WORKSPACE, DTYPE_UNSPECIFIED, {}, bytes(0, "work"));
      AddBuffer("B work" + n, WORKSPACE, DTYPE_UNSPECIFIED, {}, bytes(1, "work"));
    }
    for (int m = 0; m < microbatches_; ++m) {
      const std::string n = absl::StrCat(m);
      Compute(FORWARD, "F" + n, 0, m, "F",
              {"tokens" + n, "wte", "gamma", "beta", "head", "saved" + n, "F work" + n, "local losses"});
      Release("F" + n, "F work" + n);
    }
    const std::string last = zero_ ? "gather weights" : "optimizer";
    for (int m = 0; m < microbatches_; ++m) {
      const std::string n = absl::StrCat(m);
      Compute(BACKWARD, "B" + n, 0, m, "B",
              {"tokens" + n, "gamma", "head", "saved" + n, "dwte", "dgamma", "dbeta", "dhead", "B work" + n});
      Release("B" + n, "tokens" + n);
      Release("B" + n, "saved" + n);
      Release("sync tables", "B work" + n);
      Dep("sync tables", "B" + n, 0, true);
    }
    Dep("F0", last, 1);
    if (zero_) {
      for (const char* table : {"wte", "head"}) {
        AddBuffer(absl::StrCat("part d", table), COMMUNICATION, FP32, Part({table, true}), 0);
        Release("optimizer", absl::StrCat("part d", table));
      }
    }
    Action& tables =
        Reduce("sync tables", 0, GRADIENT_SYNC, {"data"}, {"dwte", "dhead"},
               zero_ ? std::vector<std::string>{"part dwte", "part dhead"} : std::vector<std::string>{"dwte", "dhead"});
    if (zero_) tables.set_kind(REDUCE_SCATTER);
    Reduce("sync vectors", 0, GRADIENT_SYNC, {"data", "z"}, {"dgamma", "dbeta"}, {"dgamma", "dbeta"});
    Dep("sync vectors", absl::StrCat("B", microbatches_ - 1));
    Reduce("loss sync", 0, LOSS_SYNC, {"data", "z"}, {"local losses"}, {"losses"});
    Dep("loss sync", absl::StrCat("F", microbatches_ - 1));
    std::vector<std::string> norm, clip = {"norms", "norm"}, update;
    for (const Held& held : AllHeld()) {
      norm.push_back(Gradient(held));
      clip.push_back(Gradient(held));
      update.push_back(Gradient(held));
      if (held.table && zero_) update.push_back("d" + held.name);
      update.push_back(Weight(held));
    }
    norm.push_back("local norms");
    Compute(GRAD_NORM, "norm", 0, 0, "norm", norm);
    Dep("norm", "sync tables");
    Dep("norm", "sync vectors");
    std::vector<std::string> axes = {"x", "z"};
    if (zero_) axes.push_back("data");
    Reduce("norm sync", 0, NORM_SYNC, axes, {"local norms"}, {"norms"});
    Dep("norm sync", "norm");
    Compute(SCALE_GRADIENTS, "clip", 0, 0, "clip", clip);
    Dep("clip", "norm sync");
    Compute(OPTIMIZER_STEP, "optimizer", 0, 0, "optimizer", update);
    Dep("optimizer", "loss sync");
    if (zero_) {
      Reduce("gather weights", 0, GATHER_WEIGHTS, {"data"}, {"master wte", "master head"}, {"wte", "head"})
          .set_kind(ALL_GATHER);
      Dep("gather weights", "optimizer");
    }
    EndTemplate();
  }

  const bool zero_;
  const int64_t data_;
  const int microbatches_, layers_;
  const int64_t padded_, z_;
  // For each table: the number of its rows on a rank, and the number of elements in a rank's range of these.
  const int64_t rows_ = padded_ / 2, range_ = (rows_ * kWidth + z_ - 1) / z_;
  const bool rounded_ = z_ * range_ > rows_* kWidth;
};

}  // namespace

Program SplitProgram(bool zero, int64_t data, int microbatches, int layers, int64_t padded, int64_t z) {
  return Builder(zero, data, microbatches, layers, padded, z).Build();
}

}  // namespace weft
