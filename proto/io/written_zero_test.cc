#include "proto/io/written_zero.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/io/set_field.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Leaf {
  std::vector<const FieldDescriptor*> path;
  const FieldDescriptor& field() const { return *path.back(); }
  std::string full_name() const { return field().full_name(); }
};

// Finds the fields that have a single value and no presence, so that zero cannot be told from "not given".
void AddLeaves(const Descriptor& type, std::vector<const FieldDescriptor*> path, std::vector<Leaf>* leaves) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    path.push_back(&field);
    if (field.message_type() != nullptr) {
      AddLeaves(*field.message_type(), path, leaves);
    } else if (!field.is_repeated() && !field.has_presence()) {
      leaves->push_back({path});
    }
    path.pop_back();
  }
}

std::vector<Leaf> AllLeaves() {
  std::vector<Leaf> leaves;
  for (const Descriptor* root : {Recipe::descriptor(), Plan::descriptor(), Cluster::descriptor()}) {
    AddLeaves(*root, {}, &leaves);
  }
  return leaves;
}

bool HasRule(const std::string& name) {
  for (const ZeroRule& rule : ZeroRules()) {
    if (rule.field == name) return true;
  }
  return false;
}

std::string ZeroText(const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return "\"\"";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) return field.enum_type()->FindValueByNumber(0)->name();
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ? "-0.0" : "0";
}

std::unique_ptr<Message> NewRoot(const Leaf& leaf) {
  const Descriptor* root = leaf.path[0]->containing_type();
  return std::unique_ptr<Message>(google::protobuf::MessageFactory::generated_factory()->GetPrototype(root)->New());
}

// Returns a text proto that sets the field to `value` within its outer messages. The field is on line 2.
std::string AsText(const Leaf& leaf, const std::string& value) {
  std::string text = absl::StrCat("\n", leaf.field().name(), ": ", value);
  for (size_t i = leaf.path.size() - 1; i-- > 0;) text = absl::StrCat(leaf.path[i]->name(), " { ", text, " }");
  return text;
}

std::string AsJson(const Leaf& leaf, const std::string& value) {
  std::string text = value;
  for (size_t i = leaf.path.size(); i-- > 0;) {
    if (leaf.path[i]->is_repeated()) text = absl::StrCat("[", text, "]");
    text = absl::StrCat("{\"", leaf.path[i]->name(), "\": ", text, "}");
  }
  return text;
}

// Fills `root` with only the messages that contain the field. Returns the path of the field, such as "a.b[0].c".
std::string Prepare(const Leaf& leaf, Message* root) {
  std::string path;
  Message* message = root;
  for (const FieldDescriptor* field : leaf.path) {
    absl::StrAppend(&path, path.empty() ? "" : ".", field->name());
    if (field->message_type() == nullptr) break;
    const auto& reflection = *message->GetReflection();
    message = field->is_repeated() ? reflection.AddMessage(message, field) : reflection.MutableMessage(message, field);
    if (field->is_repeated()) absl::StrAppend(&path, "[0]");
  }
  return path;
}

TEST(WrittenZero, RulesAreSortedAndOfFieldsThatThereAre) {
  std::set<std::string> known;
  for (const Leaf& leaf : AllLeaves()) known.insert(leaf.full_name());
  absl::string_view before;
  for (const ZeroRule& rule : ZeroRules()) {
    EXPECT_LT(before, rule.field);
    before = rule.field;
    EXPECT_EQ(known.count(std::string(rule.field)), 1u) << rule.field;
    EXPECT_FALSE(rule.allowed.empty());
  }
}

// Every new field must have a rule, or be listed here because its zero is a value or because its validator refuses
// zero.
TEST(WrittenZero, EveryOtherFieldHasAZeroThatIsAValueOrIsRefusedByItsValidator) {
  const std::set<std::string> kValues = {
      "weft.Recipe.seed", "weft.LearningRate.warmup_steps", "weft.LearningRate.min", "weft.LearningRate.stable_steps",
      "weft.Sgd.momentum", "weft.Sgd.weight_decay", "weft.DecayOverride.weight_decay",
      "weft.Plan.gradient_bucket_bytes", "weft.Zero.stage", "weft.Offload.activation_layers",
      "weft.PlanSchedule.definition", "weft.Cluster.source", "weft.Cluster.compute_turn_seconds",
      "weft.Cluster.nics_per_node", "weft.NodeLinks.devices_per_bridge", "weft.DirectLink.first",
      "weft.DirectLink.second", "weft.Fabric.hop_latency_seconds", "weft.Fabric.reduce_latency_seconds",
      "weft.Noise.device_speed_deviation", "weft.Noise.step_deviation", "weft.Noise.straggler_probability",
      "weft.Noise.slow_interface_probability", "weft.Device.launch_seconds", "weft.Device.reserved_bytes",
      "weft.CommunicationLoad.multiprocessors", "weft.CommunicationLoad.memory_bytes_per_second",
      "weft.TileFigures.half_depth", "weft.TileFigures.half_bytes", "weft.Efficiency.from", "weft.KernelRate.from_work",
      "weft.KernelRate.flops_per_second", "weft.KernelRate.bytes_per_second", "weft.KernelRate.overhead_seconds",
      "weft.Link.latency_seconds", "weft.Link.overhead_seconds", "weft.Reliability.failures_per_device_year",
      "weft.Reliability.failures_per_node_year", "weft.Reliability.restart_seconds",
      // Zero means a link of unknown kind.
      "weft.Link.kind"};
  const std::set<std::string> kRefusedByValidators = {"weft.Recipe.sequence_length",
                                                      "weft.Recipe.global_batch_sequences",
                                                      "weft.DecayOverride.pattern",
                                                      "weft.MeshAxis.name",
                                                      "weft.MeshAxis.size",
                                                      "weft.Cluster.name",
                                                      "weft.Cluster.nodes",
                                                      "weft.Cluster.devices_per_node",
                                                      "weft.Fabric.nodes_per_switch",
                                                      "weft.OtherInterfaces.fraction",
                                                      "weft.Reliability.checkpoint_bytes_per_second",
                                                      "weft.Reliability.repair_seconds",
                                                      "weft.Device.name",
                                                      "weft.Device.memory_bytes",
                                                      "weft.Device.memory_bytes_per_second",
                                                      "weft.TileFigures.multiprocessors",
                                                      "weft.TileFigures.attention_fraction",
                                                      "weft.TileFigures.attention_backward_fraction",
                                                      "weft.TileFigures.attention_rows",
                                                      "weft.TileFigures.memory_fraction",
                                                      "weft.Tile.rows",
                                                      "weft.Tile.columns",
                                                      "weft.Tile.fraction",
                                                      "weft.Peak.dtype",
                                                      "weft.Peak.flops_per_second",
                                                      "weft.Efficiency.fraction",
                                                      "weft.KernelRate.kernel",
                                                      "weft.KernelRate.dtype",
                                                      "weft.Link.bytes_per_second"};
  for (const Leaf& leaf : AllLeaves()) {
    const FieldDescriptor& field = leaf.field();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) continue;
    // The first value of an enum is a value like the others, unless it stands for "not given".
    if (field.enum_type() != nullptr &&
        !absl::EndsWith(field.enum_type()->FindValueByNumber(0)->name(), "_UNSPECIFIED")) {
      continue;
    }
    const std::string name = leaf.full_name();
    EXPECT_EQ(HasRule(name) + kValues.count(name) + kRefusedByValidators.count(name), 1u) << name;
  }
}

TEST(WrittenZero, IsRefusedInTextInJsonAndAsASetting) {
  int tried = 0;
  for (const Leaf& leaf : AllLeaves()) {
    const FieldDescriptor& field = leaf.field();
    if (!HasRule(leaf.full_name())) continue;
    ++tried;
    const std::string zero = ZeroText(field);
    const std::unique_ptr<Message> root = NewRoot(leaf);
    const std::string named = absl::StrCat(field.name(), " = ");

    const absl::Status text = ParseMessage(AsText(leaf, zero), "f.txt", root.get());
    EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument) << AsText(leaf, zero);
    EXPECT_THAT(std::string(text.message()), AllOf(HasSubstr("f.txt:2:1: "), HasSubstr(named), HasSubstr(" must be ")));

    const bool is_enum = field.enum_type() != nullptr;
    const std::string json = AsJson(leaf, is_enum ? absl::StrCat("\"", zero, "\"") : zero);
    const absl::Status read = ParseMessage(json, "f.json", root.get());
    EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(std::string(read.message()), AllOf(HasSubstr("f.json:1:"), HasSubstr(named), HasSubstr(" must be ")));

    root->Clear();
    const std::string path = Prepare(leaf, root.get());
    const std::string value = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? "" : zero;
    const absl::Status set = SetField(root.get(), path, value);
    EXPECT_EQ(set.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(set.message()), AllOf(HasSubstr(absl::StrCat(path, " = ")), HasSubstr(" must be ")));
  }
  // There may be more fields than rules, because some messages occur in several places.
  EXPECT_GE(tried, static_cast<int>(ZeroRules().size()));
}

// Protobuf writes no zeros into binary messages, except -0.
TEST(WrittenZero, MinusZeroIsRefusedInBinary) {
  int tried = 0;
  for (const Leaf& leaf : AllLeaves()) {
    if (leaf.field().cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) continue;
    const std::unique_ptr<Message> root = NewRoot(leaf);
    Message* message = root.get();
    for (const FieldDescriptor* field : leaf.path) {
      const auto& reflection = *message->GetReflection();
      if (field->message_type() == nullptr) {
        reflection.SetDouble(message, field, -0.0);
        break;
      }
      message =
          field->is_repeated() ? reflection.AddMessage(message, field) : reflection.MutableMessage(message, field);
    }
    const std::string bytes = root->SerializeAsString();
    // Skip the field if protobuf does not write -0, because it takes it for the default.
    if (bytes.find('\x80') == std::string::npos) continue;
    ++tried;
    const std::unique_ptr<Message> read = NewRoot(leaf);
    const absl::Status status = ParseMessage(bytes, "f.bin", read.get());
    EXPECT_EQ(status.ok(), !HasRule(leaf.full_name())) << leaf.full_name() << ": " << status;
  }
  EXPECT_GT(tried, 0);
}

// Weft reads the JSON that it writes itself for a spec without these fields.
TEST(WrittenZero, JsonOfASpecThatLeavesThemOutIsRead) {
  int tried = 0;
  for (const Leaf& leaf : AllLeaves()) {
    if (!HasRule(leaf.full_name())) continue;
    ++tried;
    const std::unique_ptr<Message> root = NewRoot(leaf);
    Prepare(leaf, root.get());
    const absl::StatusOr<std::string> json = MessageToJson(*root);
    ASSERT_TRUE(json.ok()) << json.status();
    EXPECT_THAT(*json, HasSubstr(absl::StrCat("\"", leaf.field().name(), "\": null")));
    const std::unique_ptr<Message> again = NewRoot(leaf);
    EXPECT_EQ(ParseMessage(*json, "f.json", again.get()), absl::OkStatus()) << *json;
    EXPECT_EQ(again->SerializeAsString(), root->SerializeAsString());
  }
  EXPECT_GT(tried, 0);
}

TEST(WrittenZero, SaysWhatIsAllowed) {
  Recipe recipe;
  Plan plan;
  EXPECT_EQ(ApplySetting("mbs=0", &recipe, &plan).message(),
            "recipe.microbatch_sequences = 0 must be at least 1; the default is 1");
  EXPECT_EQ(ApplySetting("vpp=0", &recipe, &plan).message(),
            "plan.schedule.virtual_stages = 0 must be at least 1; by default the schedule chooses it");
  EXPECT_EQ(ApplySetting("precision.compute=DTYPE_UNSPECIFIED", &recipe, &plan).message(),
            "plan.precision.compute = DTYPE_UNSPECIFIED must be FP16, BF16, TF32, FP32 or FP64; by default it follows "
            "from the device");
  EXPECT_EQ(ApplySetting("collective=", &recipe, &plan).message(),
            "plan.collective = '' must be a name of `weft list collectives`; the default is ring");
  EXPECT_EQ(ParseMessage("steps: 3 microbatch_sequences: 0x0", "r", &recipe).message(),
            "r:1:10: recipe.microbatch_sequences = 0 must be at least 1; the default is 1");
  // Zeros that are values are accepted.
  EXPECT_EQ(ParseMessage("seed: 0 lr { warmup_steps: 0 min: 0 }", "r", &recipe), absl::OkStatus());
  EXPECT_EQ(ApplySetting("gradient_bucket_bytes=0", &recipe, &plan), absl::OkStatus());
}

}  // namespace
}  // namespace weft
