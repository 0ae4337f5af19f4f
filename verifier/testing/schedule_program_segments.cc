#include "verifier/testing/schedule_program_segments.h"

#include <algorithm>

namespace weft {

void StageSegments::Header() {
  p_.set_name("schedule program");
  p_.set_schedule("hand-made");
  for (const auto& [axis, size] : {std::pair("data", spec_.data), std::pair("pipe", ranks_)}) {
    MeshAxis& a = *p_.mutable_mesh()->add_axes();
    a.set_name(axis);
    a.set_size(size);
  }
  Recipe& r = *p_.mutable_recipe();
  r.set_sequence_length(kRows);
  r.set_microbatch_sequences(1);
  r.set_global_batch_sequences(n_ * spec_.data);
  r.set_clip_norm(1);
  r.mutable_sgd();
  p_.set_stages(stages_);
  p_.set_microbatches(n_);
  p_.set_vocabulary(kVocabulary);
  p_.set_accumulation(spec_.accumulation);
  p_.set_compute_order(spec_.compute_order);
  p_.set_transfer_streams(spec_.transfer_streams);
  for (const auto& [from, to] : spec_.skips) {
    SkipEdge& skip = *p_.add_skips();
    skip.set_name(absl::StrCat("skip", p_.skips_size() - 1));
    skip.set_from_stage(from);
    skip.set_to_stage(to);
  }
  const auto tensor = [&](const std::string& name, Shape shape, int uses) {
    LogicalTensor& t = *p_.add_tensors();
    t.set_name(name);
    t.mutable_shape()->Assign(shape.begin(), shape.end());
    t.mutable_padded_shape()->Assign(shape.begin(), shape.end());
    t.set_uses(uses);
  };
  tensor("wte", {kVocabulary, kColumns}, spec_.tied ? 2 : 1);
  for (int s = 0; s < stages_; ++s) tensor(Weight(s), {kColumns, kColumns}, 1);
  if (!spec_.tied) tensor("head", {kVocabulary, kColumns}, 1);
}

void StageSegments::Saved(Draft& d, int stage, int width, int part, Access access) {
  d.AddOperand(absl::StrCat("saved", stage), access);
  const int operand = d.segment.operands_size() - 1;
  int64_t offset = 0;
  const auto value = [&](const std::string& name, DType dtype, Shape one) {
    const int64_t bytes = Bytes(dtype, one);
    // A backward reads only its own part of each value.
    Shape shape = one;
    if (access == WRITE) shape[0] *= width;
    d.AddValueAt(name, dtype, shape, operand, offset + (access == WRITE ? 0 : part * bytes));
    for (int j = 0; access == WRITE && j < width && width > 1; ++j) {
      d.AddValueAt(absl::StrCat(name, "/", j), dtype, one, operand, offset + j * bytes);
    }
    offset = RoundUp(offset + width * bytes, 64);
  };
  if (stage == 0) value("tokens", INT32, {kRows});
  value("h", FP32, {kRows, kColumns});
  if (Last(stage)) {
    value("z", FP32, {kRows, kColumns});
    value("logits", FP32, {kRows, kVocabulary});
    value("lse", FP32, {kRows});
    value("targets", INT32, {kRows});
  }
  d.segment.mutable_operands(operand)->set_bytes(offset);
}

Draft StageSegments::Forward(int s, int width) {
  Draft d;
  const Shape act = {width * kRows, kColumns};
  if (s > 0) d.AddTensor(Out(s - 1), act, READ);
  d.AddTensor(Weight(s), {kColumns, kColumns}, READ);
  if (!Table(s).empty()) d.AddTensor(Table(s), {kVocabulary, kColumns}, READ);
  for (int i = 0; i < p_.skips_size(); ++i) {
    if (p_.skips(i).to_stage() == s) d.AddTensor(absl::StrCat("skip", i), act, READ);
  }
  Saved(d, s, width, 0, WRITE);
  if (s == 0) {
    d.Do(LOAD_TOKENS, {}, {"tokens"});
    d.Do(EMBEDDING, {"tokens", "wte"}, {"h"});
  } else {
    d.Do(CAST, {Out(s - 1)}, {"h"});
  }
  for (int i = 0; i < p_.skips_size(); ++i) {
    if (p_.skips(i).to_stage() == s) d.Do(ADD, {"h", absl::StrCat("skip", i)}, {"h"});
  }
  if (!Last(s)) {
    d.AddTensor(Out(s), act, WRITE);
    d.Do(MATMUL, {"h", Weight(s)}, {Out(s)});
    for (int i = 0; i < p_.skips_size(); ++i) {
      if (p_.skips(i).from_stage() != s) continue;
      d.AddTensor(absl::StrCat("skip", i), act, WRITE);
      d.Do(CAST, {Out(s)}, {absl::StrCat("skip", i)});
    }
    return d;
  }
  d.AddTensor("local losses", {n_ * spec_.data}, READ_WRITE, FP64);
  d.Do(MATMUL, {"h", Weight(s)}, {"z"});
  d.Do(MATMUL, {"z", Table(s)}, {"logits"}).set_transpose_b(true);
  d.Do(LOAD_TARGETS, {}, {"targets"});
  for (int j = 0; j < width; ++j) {
    const std::string part = width > 1 ? absl::StrCat("/", j) : "";
    StepAttributes& a = d.Do(CROSS_ENTROPY, {"logits" + part, "targets" + part}, {"lse" + part, "local losses"});
    a.set_vocabulary(kVocabulary);
    a.set_loss_weight(1.0 / 64);
    a.set_microbatch_offset(j);
  }
  return d;
}

void StageSegments::Accumulate(Draft& d, Kernel kernel, std::vector<std::string> inputs, const std::string& gradient,
                               bool transpose_a, const Shape& shape) {
  std::string to = gradient;
  if (Exact()) {
    // The product is first written to a value of the workspace, and then added exactly.
    to = "one " + gradient;
    const int workspace =
        static_cast<int>(std::find(d.operands.begin(), d.operands.end(), "work") - d.operands.begin());
    Operand& o = *d.segment.mutable_operands(workspace);
    d.AddValueAt(to, FP32, shape, workspace, RoundUp(o.bytes(), 64));
    o.set_bytes(RoundUp(o.bytes(), 64) + Bytes(FP32, shape));
  }
  StepAttributes& a = d.Do(kernel, inputs, {to}, !Exact());
  if (transpose_a) a.set_transpose_a(true);
  if (Exact()) d.Do(EXACT_ACCUMULATE, {to}, {gradient});
}

Draft StageSegments::Backward(char kind, int s, int width, int part) {
  Draft d;
  const Shape act = {kRows, kColumns};
  const bool input = kind != 'W', weight = kind != 'I';
  if (weight || Last(s)) Saved(d, s, width, part, READ);
  if (input) {
    d.AddTensor(Weight(s), {kColumns, kColumns}, READ);
    if (Last(s)) d.AddTensor(Table(s), {kVocabulary, kColumns}, READ);
    if (!Last(s)) d.AddTensor(Din(s + 1), act, READ);
    for (int i = 0; i < p_.skips_size(); ++i) {
      if (p_.skips(i).from_stage() == s) d.AddTensor(absl::StrCat("dskip", i), act, READ);
    }
  }
  // The values that the input half leaves for the weight half; a whole backward keeps them in its workspace.
  d.AddOperand(kind == 'B' ? "work" : absl::StrCat("half", s), weight && !input ? READ : WRITE);
  d.AddValue("dout", FP32, act);
  d.AddValue("dh", FP32, act);
  if (Last(s)) d.AddValue("dlogits", FP32, {kRows, kVocabulary});
  if (kind == 'W' && Exact()) d.AddOperand("work", WRITE);
  if (input) {
    if (Last(s)) {
      StepAttributes& a = d.Do(CROSS_ENTROPY_BACKWARD, {"logits", "lse", "targets"}, {"dlogits"});
      a.set_vocabulary(kVocabulary);
      a.set_loss_weight(1.0 / 64);
      d.Do(MATMUL, {"dlogits", Table(s)}, {"dout"});
    } else {
      d.Do(CAST, {Din(s + 1)}, {"dout"});
    }
    for (int i = 0; i < p_.skips_size(); ++i) {
      if (p_.skips(i).from_stage() == s) d.Do(ADD, {"dout", absl::StrCat("dskip", i)}, {"dout"});
    }
    d.Do(MATMUL, {"dout", Weight(s)}, {"dh"}).set_transpose_b(true);
    if (s > 0) {
      d.AddTensor(Din(s), act, WRITE);
      d.Do(CAST, {"dh"}, {Din(s)});
    }
    for (int i = 0; i < p_.skips_size(); ++i) {
      if (p_.skips(i).to_stage() != s) continue;
      d.AddTensor(absl::StrCat("dskip", i), act, WRITE);
      d.Do(CAST, {"dh"}, {absl::StrCat("dskip", i)});
    }
  }
  if (weight) {
    d.AddTensor(WeightGradient(s), {kColumns, kColumns}, READ_WRITE, GradientType());
    Accumulate(d, MATMUL, {"h", "dout"}, WeightGradient(s), true, {kColumns, kColumns});
    const Shape table = {kVocabulary, kColumns};
    if (!Table(s).empty()) d.AddTensor(TableGradient(s), table, READ_WRITE, GradientType());
    if (s == 0) Accumulate(d, EMBEDDING_BACKWARD, {"tokens", "dh"}, TableGradient(s), false, table);
    if (Last(s)) Accumulate(d, MATMUL, {"dlogits", "z"}, TableGradient(s), true, table);
  }
  return d;
}

Draft StageSegments::Pair(const Draft& forward, const Draft& backward) {
  Draft d;
  std::vector<std::vector<Step>> steps;
  for (const Draft* half : {&forward, &backward}) {
    const int operands = d.segment.operands_size(), values = d.segment.values_size();
    for (const Operand& o : half->segment.operands()) *d.segment.add_operands() = o;
    d.operands.insert(d.operands.end(), half->operands.begin(), half->operands.end());
    for (Value v : half->segment.values()) {
      v.set_operand(v.operand() + operands);
      *d.segment.add_values() = v;
    }
    std::vector<Step>& list = steps.emplace_back(half->segment.steps().begin(), half->segment.steps().end());
    for (Step& step : list) {
      for (int& v : *step.mutable_inputs()) v += values;
      for (int& v : *step.mutable_outputs()) v += values;
    }
  }
  for (size_t i = 0; i < std::max(steps[0].size(), steps[1].size()); ++i) {
    for (const std::vector<Step>& list : steps) {
      if (i < list.size()) *d.segment.add_steps() = list[i];
    }
  }
  return d;
}

int StageSegments::AddSegment(Draft& d, const std::string& name) {
  d.segment.set_name(name);
  for (int i = 0; i < p_.segments_size(); ++i) {
    if (p_.segments(i).name() == name) return i;
  }
  *p_.add_segments() = d.segment;
  return p_.segments_size() - 1;
}

}  // namespace weft
