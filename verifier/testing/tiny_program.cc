#include "verifier/testing/tiny_program.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verifier/testing/program_builder.h"

namespace weft {
namespace {

constexpr int64_t kVocabulary = 8, kPadded = 16, kWidth = 4, kSequence = 4, kMicrobatches = 2, kData = 2;

class Builder : private ProgramBuilder {
 public:
  Builder(bool evaluation, AccumulationMode accumulation, TinyScaling scaling = TinyScaling::kNone)
      : evaluation_(evaluation),
        exact_(accumulation == EXACT),
        dynamic_(scaling == TinyScaling::kDynamic),
        loss_scale_(scaling == TinyScaling::kNone || dynamic_ ? 0 : 1024),
        by_update_(dynamic_ || scaling == TinyScaling::kFixedByUpdate) {
    p_.set_name(evaluation ? "tiny evaluation" : "tiny");
    p_.set_accumulation(accumulation);
  }

  Program Build() {
    Header();
    Segments();
    for (int pipe = 0; pipe < 2; ++pipe) MakeTemplate(pipe);
    return p_;
  }

 private:
  void Header() {
    for (const char* axis : {"data", "pipe"}) {
      MeshAxis& a = *p_.mutable_mesh()->add_axes();
      a.set_name(axis);
      a.set_size(2);
    }
    Recipe& r = *p_.mutable_recipe();
    r.set_sequence_length(kSequence);
    r.set_microbatch_sequences(1);
    r.set_global_batch_sequences(kMicrobatches * kData);
    r.set_clip_norm(1);
    r.mutable_sgd();
    p_.set_schedule("1f1b");
    p_.set_stages(2);
    p_.set_microbatches(kMicrobatches);
    p_.set_vocabulary(kVocabulary);
    AddTensor("wte", {kVocabulary, kWidth}, {kPadded, kWidth}, 2);
    AddTensor("gamma", {kWidth}, {kWidth}, 1);
    AddTensor("beta", {kWidth}, {kWidth}, 1);
  }

  // --- segments

  void Accumulate(const std::string& name, Kernel kernel, std::vector<std::string> inputs, const std::string& gradient,
                  bool transpose_a = false) {
    Step* s = Do(kernel, name, inputs, {exact_ ? absl::StrCat("one ", gradient) : gradient});
    if (transpose_a) s->mutable_attributes()->set_transpose_a(true);
    if (exact_) {
      Do(EXACT_ACCUMULATE, absl::StrCat(name, " exact"), {absl::StrCat("one ", gradient)}, {gradient});
    } else {
      s->set_accumulate(true);
    }
  }
  DType GradientType() const { return exact_ ? EXACT192 : FP32; }

  void Saved(Access access) {
    Operand_("saved", 0, access);
    Val("h", FP32, {kSequence, kWidth});
    Val("mean", FP32, {kSequence});
    Val("rstd", FP32, {kSequence});
    Val("logits", FP32, {kSequence, kPadded});
    Val("lse", FP32, {kSequence});
    Val("targets", INT32, {kSequence});
  }

  void Segments() {
    const Shape act = {kSequence, kWidth}, table = {kPadded, kWidth}, width = {kWidth};
    Begin("F0");
    Tensor("tokens", INT32, {kSequence}, WRITE);
    Tensor("wte", FP32, table, READ);
    Tensor("y", FP32, act, WRITE);
    Do(LOAD_TOKENS, "tokens", {}, {"tokens"});
    Do(EMBEDDING, "embed", {"tokens", "wte"}, {"y"});

    Begin("F1");
    Tensor("x", FP32, act, READ);
    Tensor("gamma", FP32, width, READ);
    Tensor("beta", FP32, width, READ);
    Tensor("wte", FP32, table, READ);
    Saved(WRITE);
    Tensor("losses", FP64, {kMicrobatches * kData}, READ_WRITE);
    Do(LAYER_NORM, "norm", {"x", "gamma", "beta"}, {"h", "mean", "rstd"})->mutable_attributes()->set_epsilon(1e-5);
    Do(MATMUL, "head", {"h", "wte"}, {"logits"})->mutable_attributes()->set_transpose_b(true);
    Do(LOAD_TARGETS, "targets", {}, {"targets"});
    StepAttributes& loss = *Do(CROSS_ENTROPY, "loss", {"logits", "targets"}, {"lse", "losses"})->mutable_attributes();
    loss.set_vocabulary(kVocabulary);
    loss.set_loss_weight(1.0 / 16);
    if (evaluation_) return;

    Begin("B0");
    Tensor("tokens", INT32, {kSequence}, READ);
    Tensor("dy", FP32, act, READ);
    Tensor("dwte", GradientType(), table, READ_WRITE);
    if (exact_) Tensor("one dwte", FP32, table, WRITE);
    Accumulate("embed backward", EMBEDDING_BACKWARD, {"tokens", "dy"}, "dwte");

    Begin("B1");
    Tensor("x", FP32, act, READ);
    Tensor("gamma", FP32, width, READ);
    Tensor("wte", FP32, table, READ);
    Saved(READ);
    if (dynamic_) Tensor("scale", FP64, {3}, READ);
    Tensor("dwte", GradientType(), table, READ_WRITE);
    Tensor("dgamma", GradientType(), width, READ_WRITE);
    Tensor("dbeta", GradientType(), width, READ_WRITE);
    Operand_("workspace", 0, WRITE);
    Val("dlogits", FP32, {kSequence, kPadded});
    Val("dh", FP32, act);
    if (exact_) {
      Val("one dwte", FP32, table);
      Val("one dgamma", FP32, width);
      Val("one dbeta", FP32, width);
    }
    Tensor("dx", FP32, act, WRITE);
    std::vector<std::string> read = {"logits", "lse", "targets"};
    if (dynamic_) read.push_back("scale");
    StepAttributes& back = *Do(CROSS_ENTROPY_BACKWARD, "loss backward", read, {"dlogits"})->mutable_attributes();
    back.set_vocabulary(kVocabulary);
    back.set_loss_weight((loss_scale_ > 0 ? loss_scale_ : 1) / 16);
    Do(MATMUL, "head input", {"dlogits", "wte"}, {"dh"});
    Accumulate("head weight", MATMUL, {"dlogits", "h"}, "dwte", true);
    if (exact_) {
      Do(LAYER_NORM_BACKWARD_WEIGHT, "norm weight", {"dh", "x", "mean", "rstd"}, {"one dgamma", "one dbeta"});
      Do(EXACT_ACCUMULATE, "exact gamma", {"one dgamma"}, {"dgamma"});
      Do(EXACT_ACCUMULATE, "exact beta", {"one dbeta"}, {"dbeta"});
    } else {
      Do(LAYER_NORM_BACKWARD_WEIGHT, "norm weight", {"dh", "x", "mean", "rstd"}, {"dgamma", "dbeta"})
          ->set_accumulate(true);
    }
    Do(LAYER_NORM_BACKWARD, "norm input", {"dh", "x", "gamma", "mean", "rstd"}, {"dx"});

    for (int pipe = 0; pipe < 2; ++pipe) EndOfStep(pipe);
  }

  std::vector<std::pair<std::string, Shape>> Held(int pipe) const {
    std::vector<std::pair<std::string, Shape>> held = {{"wte", {kPadded, kWidth}}};
    if (pipe == 1) held.insert(held.end(), {{"gamma", {kWidth}}, {"beta", {kWidth}}});
    return held;
  }

  void EndOfStep(int pipe) {
    Begin(absl::StrCat("norm", pipe));
    for (const auto& [name, shape] : Held(pipe)) {
      if (!exact_ && pipe == 1 && name == "wte") continue;
      Tensor("d" + name, FP32, shape, exact_ ? WRITE : READ);
      if (exact_) Tensor("acc d" + name, EXACT192, shape, READ_WRITE);
    }
    Tensor("norms", FP64, {3}, READ_WRITE);
    int slot = -1;
    for (const auto& [name, shape] : Held(pipe)) {
      ++slot;
      if (exact_) {
        Do(EXACT_ROUND, "round " + name, {"acc d" + name}, {"d" + name});
        Do(FILL, "zero " + name, {}, {"acc d" + name});
      }
      if (pipe == 1 && name == "wte") continue;  // The first stage that holds it counts it.
      Do(SQUARED_NORM, "norm " + name, {"d" + name}, {"norms"})->mutable_attributes()->set_slot(slot);
    }

    Begin(absl::StrCat("scale", pipe));
    Tensor("norms", FP64, {3}, READ);
    Tensor("norm", FP64, {2}, WRITE);
    if (dynamic_) Tensor("scale", FP64, {3}, READ);
    for (const auto& [name, shape] : Held(pipe)) {
      if (!by_update_) Tensor("d" + name, FP32, shape, READ_WRITE);
    }
    std::vector<std::string> norms = {"norms"}, scaling;
    if (dynamic_) norms.push_back("scale");
    StepAttributes& total = *Do(NORM_TOTAL, "total", norms, {"norm"})->mutable_attributes();
    total.set_clip_norm(1);
    total.set_loss_scale(loss_scale_);
    for (const auto& [name, shape] : Held(pipe)) {
      if (!by_update_) Do(SCALE, "scale " + name, {"norm", "d" + name}, {"d" + name});
    }

    Begin(absl::StrCat("optimizer", pipe));
    if (by_update_) {
      Tensor("norm", FP64, {2}, READ);
      scaling.push_back("norm");
    }
    if (dynamic_) {
      Tensor("scale", FP64, {3}, READ_WRITE);
      scaling.push_back("scale");
    }
    for (const auto& [name, shape] : Held(pipe)) {
      Tensor("d" + name, FP32, shape, READ_WRITE);
      Tensor(name, FP32, shape, READ_WRITE);
    }
    for (const auto& [name, shape] : Held(pipe)) {
      std::vector<std::string> inputs = {"d" + name, name};
      inputs.insert(inputs.end(), scaling.begin(), scaling.end());
      Do(SGD_STEP, "update " + name, inputs, {name});
      Do(FILL, "zero " + name, {}, {"d" + name});
    }
    if (!dynamic_) return;
    StepAttributes& update = *Do(UPDATE_LOSS_SCALE, "update scale", {"norm", "scale"}, {"scale"})->mutable_attributes();
    update.set_loss_scale(1024);
    update.set_growth_interval(100);
  }

  // --- templates

  void MakeTemplate(int pipe) {
    BeginTemplate(absl::StrCat("pipe", pipe));
    Coordinate& pin = *t_->add_pins();
    pin.set_axis("pipe");
    pin.set_index(pipe);
    const Shape act = {kSequence, kWidth};
    int tensor = 0;
    for (const auto& [name, shape] : Held(pipe)) {
      Persistent(name, PARAMETER, FP32, shape, PARAM, tensor);
      if (evaluation_) {
        top_ += RoundUp(Bytes(FP32, shape), 256);  // Training keeps the gradient here.
      } else {
        Persistent("d" + name, GRADIENT, FP32, shape, GRAD, tensor, tensor == 0 ? pipe : 0);
        if (exact_) {
          Persistent("acc d" + name, GRADIENT, EXACT192, shape, GRAD_ACCUMULATOR, tensor, tensor == 0 ? pipe : 0);
        }
      }
      ++tensor;
    }
    const Shape losses = {kMicrobatches * kData};
    Persistent("local losses", COMMUNICATION, FP64, losses, LOCAL_LOSSES);
    Persistent("losses", COMMUNICATION, FP64, losses, LOSSES);
    if (!evaluation_) {
      Persistent("local norms", COMMUNICATION, FP64, {3}, LOCAL_NORMS);
      Persistent("norms", COMMUNICATION, FP64, {3}, NORMS);
      Persistent("norm", COMMUNICATION, FP64, {2}, NORM);
      if (dynamic_) Persistent("scale", OPTIMIZER, FP64, {3}, LOSS_SCALE);
    }
    if (evaluation_) top_ += 16384;  // After everything that training keeps.
    const auto m_ = [](const char* name, int m) { return absl::StrCat(name, m); };
    int64_t saved = 0;
    for (const Segment& s : p_.segments()) {
      for (const Operand& o : s.operands()) {
        if (o.name() == "saved") saved = o.bytes();
      }
    }
    for (int m = 0; m < kMicrobatches; ++m) {
      if (pipe == 0) {
        AddBuffer(m_("tokens", m), SAVED_ACTIVATION, INT32, {kSequence}, 0);
        AddBuffer(m_("y", m), IN_FLIGHT_ACTIVATION, FP32, act, 0);
        if (!evaluation_) AddBuffer(m_("dy", m), IN_FLIGHT_ACTIVATION, FP32, act, 0);
        if (exact_) AddBuffer(m_("one", m), WORKSPACE, FP32, {kPadded, kWidth}, 0);
      } else {
        AddBuffer(m_("x", m), IN_FLIGHT_ACTIVATION, FP32, act, 0);
        AddBuffer(m_("saved", m), SAVED_ACTIVATION, DTYPE_UNSPECIFIED, {}, saved);
        if (evaluation_) continue;
        AddBuffer(m_("dx", m), IN_FLIGHT_ACTIVATION, FP32, act, 0);
      }
    }
    if (pipe == 1 && !evaluation_) {
      // The workspaces of both microbatches use the same bytes.
      int64_t bytes = 0;
      for (const Segment& s : p_.segments()) {
        for (const Operand& o : s.operands()) {
          if (o.name() == "workspace") bytes = o.bytes();
        }
      }
      AddBuffer("workspace0", WORKSPACE, DTYPE_UNSPECIFIED, {}, bytes);
      AddBuffer("workspace1", WORKSPACE, DTYPE_UNSPECIFIED, {}, bytes, t_->buffers(buffers_["workspace0"]).offset());
    }
    if (pipe == 0) {
      ListOfPipe0();
    } else {
      ListOfPipe1();
    }
    if (evaluation_) {
      Reduce("loss sync", 0, LOSS_SYNC, {"data", "pipe"}, {"local losses"}, {"losses"});
      Dep("loss sync", "F1");
      Dep("loss sync", "loss sync", 1);
      if (pipe == 1) Dep("F0", "loss sync", 1);
    } else {
      ListOfEnd(pipe);
    }
    EndTemplate();
  }

  void ListOfPipe0() {
    for (int m = 0; m < 2; ++m) {
      const std::string n = absl::StrCat(m), f = "F" + n, send = "send F" + n;
      Compute(FORWARD, f, 0, m, "F0", {"tokens" + n, "wte", "y" + n});
      Move(SEND, send, 0, m, TOWARDS_LOSS, 1, "y" + n);
      Dep(send, f);
      Dep(f, send, 1);  // The next forward reuses y.
      Release(send, "y" + n);
      if (evaluation_) Release(f, "tokens" + n);
    }
    if (evaluation_) return;
    for (int m = 0; m < 2; ++m) {
      const std::string n = absl::StrCat(m), b = "B" + n, recv = "recv B" + n;
      Move(RECV, recv, 0, m, FROM_LOSS, 1, "dy" + n);
      std::vector<std::string> operands = {"tokens" + n, "dy" + n, exact_ ? "acc dwte" : "dwte"};
      if (exact_) operands.push_back("one" + n);
      Compute(BACKWARD, b, 0, m, "B0", operands);
      Dep(b, recv);
      Dep(recv, b, 1);
      for (const char* buffer : {"tokens", "dy"}) Release(b, buffer + n);
      if (exact_) Release(b, "one" + n);
    }
  }

  void ListOfPipe1() {
    for (int m = 0; m < 2; ++m) {
      const std::string n = absl::StrCat(m), f = "F" + n, b = "B" + n, recv = "recv F" + n, send = "send B" + n;
      Move(RECV, recv, 1, m, TOWARDS_LOSS, 0, "x" + n);
      Compute(FORWARD, f, 1, m, "F1", {"x" + n, "gamma", "beta", "wte", "saved" + n, "local losses"});
      Dep(f, recv);
      if (evaluation_) {
        Dep(recv, f, 1);
        Release(f, "x" + n);
        Release(f, "saved" + n);
        continue;
      }
      const std::string acc = exact_ ? "acc " : "";
      std::vector<std::string> operands = {"x" + n, "gamma", "wte", "saved" + n};
      if (dynamic_) operands.push_back("scale");
      operands.insert(operands.end(), {acc + "dwte", acc + "dgamma", acc + "dbeta", "workspace" + n, "dx" + n});
      Compute(BACKWARD, b, 1, m, "B1", operands);
      Move(SEND, send, 1, m, FROM_LOSS, 0, "dx" + n);
      Dep(send, b);
      Dep(b, send, 1);
      Dep(recv, b, 1);
      for (const char* buffer : {"x", "saved", "workspace"}) Release(b, buffer + n);
      Release(send, "dx" + n);
    }
  }

  void ListOfEnd(int pipe) {
    const std::string n = absl::StrCat(pipe), acc = exact_ ? "acc " : "";
    std::vector<std::string> gradients, norm, scale = {"norms", "norm"}, update;
    if (dynamic_) scale.push_back("scale");
    if (by_update_) update.push_back("norm");
    if (dynamic_) update.push_back("scale");
    for (const auto& [name, shape] : Held(pipe)) {
      gradients.push_back(acc + "d" + name);
      if (exact_ || pipe == 0 || name != "wte") norm.push_back("d" + name);
      if (exact_) norm.push_back("acc d" + name);
      if (!by_update_) scale.push_back("d" + name);
      update.push_back("d" + name);
      update.push_back(name);
    }
    norm.push_back("local norms");
    Reduce("gradient sync", pipe, GRADIENT_SYNC, {"data"}, gradients, gradients);
    Dep("gradient sync", "B1");
    Reduce("tied sync", pipe, TIED_SYNC, {"pipe"}, {acc + "dwte"}, {acc + "dwte"});
    Dep("tied sync", "gradient sync");
    Reduce("loss sync", pipe, LOSS_SYNC, {"data", "pipe"}, {"local losses"}, {"losses"});
    Dep("loss sync", "B1");
    Compute(GRAD_NORM, "norm", pipe, 0, "norm" + n, norm);
    Dep("norm", "tied sync");
    Reduce("norm sync", pipe, NORM_SYNC, {"pipe"}, {"local norms"}, {"norms"});
    Dep("norm sync", "norm");
    Compute(SCALE_GRADIENTS, "clip", pipe, 0, "scale" + n, scale);
    Dep("clip", "norm sync");
    Compute(OPTIMIZER_STEP, "optimizer", pipe, 0, "optimizer" + n, update);
    Dep("optimizer", "loss sync");
  }

  const bool evaluation_;
  const bool exact_;
  const bool dynamic_;
  // loss_scale_: a fixed scale, 0 = none. by_update_: the optimizer's kernel undoes it.
  const double loss_scale_;
  const bool by_update_;
};

}  // namespace

Program TinyProgram(AccumulationMode accumulation, TinyScaling scaling) {
  return Builder(false, accumulation, scaling).Build();
}
Program TinyEvaluation() { return Builder(true, IN_ORDER).Build(); }

}  // namespace weft
