#include "proto/io/written_zero.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace weft {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr absl::string_view kScheduleChoice = "at least 1; by default the schedule chooses it";
constexpr absl::string_view kCompute = "FP16, BF16, TF32, FP32 or FP64; by default it follows from the device";
constexpr absl::string_view kPrecision = "FP16, BF16, FP32 or FP64; by default it follows from the device";

constexpr ZeroRule kRules[] = {
    {"weft.Cluster.compute_slots_per_node", "at least 1; the default is one per device"},
    {"weft.Cluster.host_memory_bytes", "at least 1; without it, host memory is not checked"},
    {"weft.Device.compute_capability", "at least 1, e.g. 80; by default it is unknown"},
    {"weft.Fabric.oversubscription", "greater than 0; the default is 1"},
    {"weft.LearningRate.decay", "constant, linear or cosine; the default is constant"},
    {"weft.LossScale.fixed", "from 2^-60 to 2^60; the default is dynamic with FP16 and none otherwise"},
    {"weft.LossScale.growth_interval", "at least 1; the default is 2000"},
    {"weft.LossScale.initial", "from 1 to 2^60; the default is 65536"},
    {"weft.Noise.slow_interface_fraction", "greater than 0 and at most 1; by default no interface is slow"},
    {"weft.Noise.straggler_slowdown", "at least 1; by default no node is slow"},
    {"weft.Offload.bucket_elements", "at least 1; the default is 16 Mi"},
    {"weft.Offload.buckets_per_reduce", "at least 1; the default is 4"},
    {"weft.OtherDevices.speed", "at least 1e-06 and at most 1e+06; the default is 1"},
    {"weft.Plan.accumulation", "IN_ORDER or EXACT; the default is IN_ORDER"},
    {"weft.Plan.collective", "a name of `weft list collectives`; the default is ring"},
    {"weft.Plan.receive_buffers", "at least 1; the default is 1"},
    {"weft.Plan.send_buffers", "at least 1; the default is 2"},
    {"weft.PlanSchedule.group", kScheduleChoice},
    {"weft.PlanSchedule.lanes", kScheduleChoice},
    {"weft.PlanSchedule.limit", kScheduleChoice},
    {"weft.PlanSchedule.name", "a name of `weft list schedules`; the default is 1f1b"},
    {"weft.PlanSchedule.virtual_stages", kScheduleChoice},
    {"weft.PlanSchedule.waves", kScheduleChoice},
    {"weft.Precision.compute", kCompute},
    {"weft.Precision.grads", kPrecision},
    {"weft.Precision.master", kPrecision},
    {"weft.Precision.moments", kPrecision},
    {"weft.Precision.params", kPrecision},
    {"weft.Precision.reduce", kPrecision},
    {"weft.Recipe.microbatch_sequences", "at least 1; the default is 1"},
    {"weft.Recipe.steps", "at least 1; the default is 1"},
    {"weft.Recompute.every", "at least 1 with mode EVERY, and left out with others"},
    {"weft.Recompute.interval", "at least 1; by default weft takes the interval with the fewest planned bytes"},
    {"weft.Zero.group", "at least 1 and a divisor of mesh axis data; the default is all replicas"},
};

const ZeroRule* RuleOf(const FieldDescriptor& field) {
  const absl::string_view name = field.full_name();
  const ZeroRule* rule = std::lower_bound(std::begin(kRules), std::end(kRules), name,
                                          [](const ZeroRule& a, absl::string_view b) { return a.field < b; });
  return rule != std::end(kRules) && rule->field == name ? rule : nullptr;
}

// True for -0 too, although protobuf's reflection counts -0 as a value that is set.
bool IsZero(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) return reflection.GetDouble(message, &field) == 0;
  return !reflection.HasField(message, &field);
}

}  // namespace

absl::Span<const ZeroRule> ZeroRules() { return kRules; }

bool HasZeroRule(const FieldDescriptor& field) { return RuleOf(field) != nullptr; }

bool HoldsUnwritableZero(const Message& message, const FieldDescriptor& field) {
  return RuleOf(field) != nullptr && IsZero(message, field);
}

absl::Status CheckWritten(const Message& message, const FieldDescriptor& field, absl::string_view path) {
  const ZeroRule* rule = RuleOf(field);
  if (rule == nullptr || !IsZero(message, field)) return absl::OkStatus();
  std::string zero = "0";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) zero = "''";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) zero = field.enum_type()->FindValueByNumber(0)->name();
  return absl::InvalidArgumentError(absl::StrCat(path, " = ", zero, " must be ", rule->allowed));
}

}  // namespace weft
