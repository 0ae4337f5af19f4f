#include "compiler/rewrite/segment_part.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/traits.h"
#include "proto/util/value_bytes.h"

namespace weft {
namespace {

// Adds a whole buffer as an operand and returns its value.
int AddBuffer(const Template& t, int buffer, Access access, BoundSegment* segment) {
  const Buffer& proto = t.buffers(buffer);
  Operand& operand = *segment->segment.add_operands();
  operand.set_name(proto.name());
  operand.set_bytes(proto.bytes());
  operand.set_access(access);
  segment->operands.push_back(buffer);
  Value& value = *segment->segment.add_values();
  value.set_name(proto.name());
  value.set_operand(segment->segment.operands_size() - 1);
  value.set_dtype(proto.dtype());
  *value.mutable_shape() = proto.shape();
  return segment->segment.values_size() - 1;
}

}  // namespace

BoundSegment PartOf(const Segment& whole, const std::vector<int>& operands, const std::string& name,
                    const std::function<bool(const Step&)>& keeps) {
  BoundSegment part;
  part.segment.set_name(name);
  std::map<int, int> operand_of, value_of, step_of;
  // For each operand that a step uses: whether a step reads it, and whether a step writes it.
  std::map<int, bool> read, written;
  const auto use = [&](int value, bool writes) {
    const Value& old = whole.values(value);
    const auto [operand, new_operand] = operand_of.emplace(old.operand(), part.segment.operands_size());
    if (new_operand) {
      *part.segment.add_operands() = whole.operands(old.operand());
      part.operands.push_back(operands[old.operand()]);
    }
    const auto [found, fresh] = value_of.emplace(value, part.segment.values_size());
    if (fresh) {
      *part.segment.add_values() = old;
      part.segment.mutable_values(found->second)->set_operand(operand->second);
    }
    (writes ? written : read)[operand->second] |= true;
    return found->second;
  };
  for (int i = 0; i < whole.steps_size(); ++i) {
    const Step& step = whole.steps(i);
    if (!keeps(step)) continue;
    step_of[i] = part.segment.steps_size();
    Step& copy = *part.segment.add_steps();
    copy = step;
    for (int& value : *copy.mutable_inputs()) value = use(value, false);
    for (int o = 0; o < step.outputs_size(); ++o) {
      const int value = step.outputs(o);
      if (kernels::AddsToOutput(step, o) || kernels::WritesPartOfOutput(step, o)) use(value, false);
      copy.set_outputs(o, use(value, true));
    }
    copy.clear_deps();
    for (int dep : step.deps()) {
      if (const auto found = step_of.find(dep); found != step_of.end()) copy.add_deps(found->second);
    }
  }
  for (int o = 0; o < part.segment.operands_size(); ++o) {
    const bool reads = read.contains(o), writes = written.contains(o);
    part.segment.mutable_operands(o)->set_access(!writes ? READ : reads ? READ_WRITE : WRITE);
  }
  return part;
}

int AddValue(const Template& t, int buffer, Value value, BoundSegment* segment) {
  const auto found = std::find(segment->operands.begin(), segment->operands.end(), buffer);
  value.set_operand(static_cast<int>(found - segment->operands.begin()));
  if (found == segment->operands.end()) {
    Operand& operand = *segment->segment.add_operands();
    operand.set_name(t.buffers(buffer).name());
    operand.set_bytes(t.buffers(buffer).bytes());
    operand.set_access(READ);
    segment->operands.push_back(buffer);
  }
  *segment->segment.add_values() = std::move(value);
  return segment->segment.values_size() - 1;
}

void SetAccess(const Template& t, BoundSegment* segment) {
  Segment& proto = segment->segment;
  std::vector<bool> reads(proto.operands_size(), false);
  std::vector<int64_t> written(proto.operands_size(), 0);
  for (const Step& step : proto.steps()) {
    for (int v : step.inputs()) reads[proto.values(v).operand()] = true;
    for (int v : step.outputs()) {
      const Value& value = proto.values(v);
      written[value.operand()] += ValueBytes(value).value_or(0);
      if (step.accumulate()) reads[value.operand()] = true;
    }
  }
  for (int o = 0; o < proto.operands_size(); ++o) {
    Operand& operand = *proto.mutable_operands(o);
    const bool all = !t.buffers(segment->operands[o]).persistent() || written[o] >= operand.bytes();
    operand.set_access(written[o] == 0 ? READ : reads[o] || !all ? READ_WRITE : WRITE);
  }
}

void AddCopy(const Template& t, int from, int to, BoundSegment* segment) {
  const int source = AddBuffer(t, from, READ, segment);
  const int destination = AddBuffer(t, to, WRITE, segment);
  Step& step = *segment->segment.add_steps();
  step.set_name(absl::StrCat("copy ", t.buffers(from).name()));
  step.set_kernel(CAST);
  step.add_inputs(source);
  step.add_outputs(destination);
  step.mutable_work()->set_bytes(2 * t.buffers(from).bytes());
  step.mutable_work()->set_dtype(t.buffers(from).dtype());
}

void AddZero(const Template& t, int buffer, BoundSegment* segment) {
  const int value = AddBuffer(t, buffer, WRITE, segment);
  Step& step = *segment->segment.add_steps();
  step.set_name(absl::StrCat("zero ", t.buffers(buffer).name()));
  step.set_kernel(FILL);
  step.add_outputs(value);
  step.mutable_attributes();
  step.mutable_work()->set_bytes(t.buffers(buffer).bytes());
  step.mutable_work()->set_dtype(t.buffers(buffer).dtype());
}

}  // namespace weft
