#include "proto/validate.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/io.h"
#include "proto/set_field.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using ::testing::HasSubstr;

// One way to break one field of a valid spec.
struct Bad {
  // As in the .proto file, without indices: "lr.peak".
  std::string field;
  // What to change: text proto merged into the valid spec, or "PATH=VALUE" for a field of a list.
  std::string change;
  // Part of the error.
  std::string error;
};

template <typename T>
T Parse(const std::string& text) {
  T message;
  const absl::Status status = ParseMessage(text, "base", &message);
  EXPECT_TRUE(status.ok()) << status;
  return message;
}

void Apply(const std::string& change, Message* message) {
  const size_t equals = change.find('=');
  if (equals != std::string::npos) {
    const absl::Status status = SetField(message, change.substr(0, equals), change.substr(equals + 1));
    ASSERT_TRUE(status.ok()) << status;
  } else {
    ASSERT_TRUE(TextFormat::MergeFromString(change, message)) << change;
  }
}

// All fields that hold values, by path without indices.
void LeafFields(const Descriptor& type, const std::string& prefix, std::set<std::string>* leaves) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.message_type() != nullptr) {
      LeafFields(*field.message_type(), prefix + field.name() + ".", leaves);
    } else {
      leaves->insert(prefix + field.name());
    }
  }
}

// Every case is refused with its error, and every field has a case, except those of which any value is valid.
template <typename T>
void CheckTable(const T& base, const std::vector<Bad>& table, const std::set<std::string>& free,
                const std::function<absl::Status(T*)>& validate) {
  std::set<std::string> missing;
  LeafFields(*T::descriptor(), "", &missing);
  for (const std::string& field : free) EXPECT_EQ(missing.erase(field), 1u) << field;
  for (const Bad& bad : table) {
    T message = base;
    Apply(bad.change, &message);
    const absl::Status status = validate(&message);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field << ": " << bad.change;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.error)) << bad.change;
    missing.erase(bad.field);
  }
  EXPECT_THAT(missing, testing::IsEmpty()) << "fields without a bad value";
}

const char kRecipe[] = R"(
  sequence_length: 128 global_batch_sequences: 16 microbatch_sequences: 2
  adamw { overrides { pattern: "*.bias" } }
)";

TEST(ValidateRecipe, FillsDefaults) {
  Recipe recipe;
  recipe.set_sequence_length(8);
  recipe.set_global_batch_sequences(4);
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  const Recipe expected = Parse<Recipe>(R"(
    sequence_length: 8 global_batch_sequences: 4 microbatch_sequences: 1 steps: 1
    adamw { beta1: 0.9 beta2: 0.95 epsilon: 1e-8 weight_decay: 0.1 } lr { peak: 3e-4 decay: "constant" } clip_norm: 1
  )");
  EXPECT_EQ(recipe.DebugString(), expected.DebugString());
  // Resolved recipes stay as they are.
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  EXPECT_EQ(recipe.DebugString(), expected.DebugString());
}

TEST(ValidateRecipe, KeepsWhatIsGiven) {
  const std::string text = R"(
    sequence_length: 8 global_batch_sequences: 4 microbatch_sequences: 2 steps: 7 seed: 3 init { normal: 0 }
    sgd { momentum: 0.9 weight_decay: 0.5 } lr { peak: 0 warmup_steps: 100 decay: "cosine" } clip_norm: 0 dropout: 0
  )";
  Recipe recipe = Parse<Recipe>(text);
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  EXPECT_EQ(recipe.DebugString(), Parse<Recipe>(text).DebugString());
}

TEST(ValidateRecipe, RefusesEveryBadField) {
  const std::vector<Bad> table = {
      {"sequence_length", "sequence_length: 0", "recipe.sequence_length is missing or 0; it is required"},
      {"sequence_length", "sequence_length: -1", "recipe.sequence_length = -1 must be at least 1"},
      {"sequence_length", "sequence_length: 9223372036854775807", "recipe.sequence_length = 9223372036854775807"},
      {"global_batch_sequences", "global_batch_sequences: 0", "recipe.global_batch_sequences is missing"},
      {"global_batch_sequences", "global_batch_sequences: -5", "recipe.global_batch_sequences = -5 must be at least 1"},
      {"global_batch_sequences", "global_batch_sequences: 3000000000", "must be at most 2147483647"},
      {"microbatch_sequences", "microbatch_sequences: -2", "recipe.microbatch_sequences = -2 must be at least 1"},
      {"microbatch_sequences", "microbatch_sequences: 17", "recipe.microbatch_sequences = 17 must be at most 16"},
      {"microbatch_sequences", "sequence_length: 16777216 global_batch_sequences: 200 microbatch_sequences: 200",
       "recipe.microbatch_sequences * recipe.sequence_length = 3355443200 must be at most"},
      {"steps", "steps: -1", "recipe.steps = -1 must be at least 1"},
      {"steps", "steps: 9223372036854775807", "recipe.steps * recipe.global_batch_sequences"},
      {"steps", "steps: 100000000000000000", "tokens of the run"},
      {"init.normal", "init { normal: -0.1 }", "recipe.init.normal = -0.1 must be finite and at least 0"},
      {"init.normal", "init { normal: nan }", "recipe.init.normal = nan must be"},
      {"adamw.beta1", "adamw { beta1: 1 }", "recipe.adamw.beta1 = 1 must be at least 0 and less than 1"},
      {"adamw.beta1", "adamw { beta1: nan }", "recipe.adamw.beta1 = nan"},
      {"adamw.beta2", "adamw { beta2: -0.5 }", "recipe.adamw.beta2 = -0.5"},
      {"adamw.epsilon", "adamw { epsilon: 0 }", "recipe.adamw.epsilon = 0 must be finite and greater than 0"},
      {"adamw.epsilon", "adamw { epsilon: inf }", "recipe.adamw.epsilon = inf"},
      {"adamw.weight_decay", "adamw { weight_decay: -1 }", "recipe.adamw.weight_decay = -1"},
      {"adamw.overrides.pattern", "adamw { overrides { weight_decay: 1 } }", "recipe.adamw.overrides[1].pattern"},
      {"adamw.overrides.weight_decay", "adamw { overrides { pattern: \"*\" weight_decay: -1 } }",
       "recipe.adamw.overrides[1].weight_decay = -1"},
      {"sgd.momentum", "sgd { momentum: 1.5 }", "recipe.sgd.momentum = 1.5"},
      {"sgd.weight_decay", "sgd { weight_decay: nan }", "recipe.sgd.weight_decay = nan"},
      {"lr.peak", "lr { peak: -1e-3 }", "recipe.lr.peak = -0.001"},
      {"lr.peak", "lr { peak: inf }", "recipe.lr.peak = inf"},
      {"lr.warmup_steps", "lr { warmup_steps: -3 }", "recipe.lr.warmup_steps = -3 must be at least 0"},
      {"lr.decay", "lr { decay: \"cosin\" }", "recipe.lr.decay = 'cosin' is unknown; nearest: 'cosine'; known: "},
      {"lr.min", "lr { decay: \"linear\" min: -1 }", "recipe.lr.min = -1 must be"},
      {"lr.min", "lr { decay: \"linear\" min: 1 }", "recipe.lr.min = 1 must be at most recipe.lr.peak = 0.0003"},
      {"lr.min", "lr { min: 1e-5 }", "has no effect with recipe.lr.decay = 'constant'"},
      {"clip_norm", "clip_norm: -1", "recipe.clip_norm = -1"},
      {"clip_norm", "clip_norm: nan", "recipe.clip_norm = nan"},
      {"dropout", "dropout: 1", "recipe.dropout = 1 must be at least 0 and less than 1"},
  };
  CheckTable<Recipe>(Parse<Recipe>(kRecipe), table, {"seed"}, [](Recipe* r) { return ValidateAndResolve(r); });
}

TEST(MicrobatchesPerReplica, DividesOrNamesNeighbours) {
  Recipe recipe = Parse<Recipe>(kRecipe);
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  const Mesh mesh = Parse<Mesh>("axes { name: \"data\" size: 4 } axes { name: \"pipe\" size: 3 }");
  EXPECT_EQ(*MicrobatchesPerReplica(recipe, mesh), 2);
  EXPECT_EQ(*MicrobatchesPerReplica(recipe, Mesh()), 8);
  recipe.set_global_batch_sequences(18);
  EXPECT_EQ(std::string(MicrobatchesPerReplica(recipe, mesh).status().message()),
            "recipe.global_batch_sequences = 18 must be a multiple of recipe.microbatch_sequences * data = 2 * 4 = 8; "
            "nearest valid: 16, 24");
  recipe.set_global_batch_sequences(2);
  EXPECT_THAT(std::string(MicrobatchesPerReplica(recipe, mesh).status().message()), HasSubstr("nearest valid: 8"));
}

Device CpuDevice() { return Parse<Device>("peaks { dtype: FP32 flops_per_second: 1e11 }"); }
Device GpuDevice() { return Parse<Device>("peaks { dtype: FP32 } peaks { dtype: BF16 }"); }

TEST(ValidatePlan, FillsDefaults) {
  Plan plan;
  ASSERT_TRUE(ValidateAndResolve(&plan, CpuDevice()).ok());
  const std::string common = R"(
    schedule { name: "1f1b" virtual_stages: 1 } accumulation: IN_ORDER receive_buffers: 1 send_buffers: 2
    collective: "ring")";
  EXPECT_EQ(plan.DebugString(),
            Parse<Plan>(common + "precision { compute: FP32 params: FP32 grads: FP32 reduce: FP32 master: FP32 "
                                 "moments: FP32 }")
                .DebugString());
  plan.Clear();
  ASSERT_TRUE(ValidateAndResolve(&plan, GpuDevice()).ok());
  EXPECT_EQ(plan.DebugString(),
            Parse<Plan>(common + "precision { compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 "
                                 "moments: FP32 }")
                .DebugString());
}

TEST(ValidatePlan, PrecisionFollowsWhatIsGiven) {
  const auto compute = [](const std::string& precision, const Device& device) {
    Plan plan = Parse<Plan>("precision { " + precision + " }");
    const absl::Status status = ValidateAndResolve(&plan, device);
    EXPECT_TRUE(status.ok()) << status;
    return plan.precision().compute();
  };
  EXPECT_EQ(compute("compute: FP32", GpuDevice()), FP32);
  EXPECT_EQ(compute("compute: BF16", CpuDevice()), BF16);
  EXPECT_EQ(compute("moments: FP64", GpuDevice()), FP64);
  EXPECT_EQ(compute("grads: FP32", GpuDevice()), BF16);
  EXPECT_EQ(compute("grads: FP32", CpuDevice()), FP32);
}

TEST(ValidatePlan, AcceptsFullPlans) {
  Plan plan = Parse<Plan>(R"(
    mesh { axes { name: "x" size: 1 } axes { name: "data" size: 2 } axes { name: "pipe" size: 3 } }
    schedule { name: "gpipe" virtual_stages: 1 } partition { layers_per_stage: [4, 1, 2] }
    recompute { mode: LAYERS layers: [0, 3] } accumulation: EXACT receive_buffers: 4 send_buffers: 8
    gradient_bucket_bytes: 1000000 collective: "direct" step_barrier: true
  )");
  const absl::Status status = ValidateAndResolve(&plan, CpuDevice());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ValidatePlan, RefusesEveryBadField) {
  const Plan base = Parse<Plan>("mesh { axes { name: \"data\" size: 2 } axes { name: \"pipe\" size: 3 } }");
  const std::vector<Bad> table = {
      {"mesh.axes.name", "mesh.axes[1].name=pip", "plan.mesh.axes[1].name = 'pip' is unknown; nearest: 'pipe'"},
      {"mesh.axes.name", "mesh.axes[1].name=", "plan.mesh.axes[1].name = '' is unknown"},
      {"mesh.axes.name", "mesh.axes[1].name=data", "plan.mesh.axes[1].name = 'data' is listed twice"},
      {"mesh.axes.name", "mesh.axes[1].name=pp", "write 'pipe'"},
      {"mesh.axes.name", "mesh.axes[1].name=x", "tensor axis 'x' is not supported yet"},
      {"mesh.axes.size", "mesh.axes[0].size=0", "plan.mesh.axes[0].size = 0 must be at least 1"},
      {"mesh.axes.size", "mesh.axes[0].size=-4", "plan.mesh.axes[0].size = -4 must be at least 1"},
      {"mesh.axes.size", "mesh.axes[0].size=9223372036854775807", "must be at most 1048576"},
      {"mesh.axes.size", "mesh.axes[0].size=1048576", "ranks of plan.mesh = 3145728 must be at most 1048576"},
      {"schedule.virtual_stages", "schedule { virtual_stages: -1 }", "plan.schedule.virtual_stages = -1"},
      {"schedule.virtual_stages", "schedule { virtual_stages: 2 }", "not supported yet"},
      {"partition.layers_per_stage", "partition.layers_per_stage=3,3",
       "plan.partition.layers_per_stage has 2 entries; it must have 3"},
      {"partition.layers_per_stage", "partition.layers_per_stage=3,0,3",
       "plan.partition.layers_per_stage[1] = 0 must be at least 1"},
      {"recompute.mode", "recompute { mode: LAYERS }", "plan.recompute.layers is empty"},
      {"recompute.mode", "recompute { mode: 9 }", "plan.recompute.mode = 9 must be NONE, FULL, LAYERS or EVERY"},
      {"recompute.layers", "recompute { layers: 1 }",
       "plan.recompute.layers is given, but plan.recompute.mode is NONE"},
      {"recompute.layers", "recompute { mode: LAYERS layers: [1, 1] }", "plan.recompute.layers[1] = 1 must be greater"},
      {"recompute.layers", "recompute { mode: LAYERS layers: -1 }", "plan.recompute.layers[0] = -1"},
      {"recompute.every", "recompute { mode: FULL every: 2 }", "plan.recompute.every is given"},
      {"recompute.every", "recompute { mode: EVERY }", "plan.recompute.every = 0 must be at least 1"},
      {"recompute.every", "recompute { mode: EVERY every: -1 }", "plan.recompute.every = -1"},
      {"precision.compute", "precision { compute: FP16 }", "plan.precision.compute = FP16 is not supported yet"},
      {"precision.compute", "precision { compute: INT32 }", "plan.precision.compute = INT32 is no precision"},
      {"precision.compute", "precision { compute: 77 }", "plan.precision.compute = 77"},
      {"precision.params", "precision { compute: BF16 params: FP32 }", "compute bf16, params fp32"},
      {"precision.grads", "precision { grads: EXACT192 }", "plan.accumulation: EXACT"},
      {"precision.reduce", "precision { compute: FP32 reduce: BF16 }", "is not supported yet; supported: fp32"},
      {"precision.master", "precision { master: BF16 }", "is not supported yet"},
      {"precision.moments", "precision { compute: FP32 moments: FP64 }", "is not supported yet"},
      {"accumulation", "accumulation: 5", "plan.accumulation = 5 must be IN_ORDER or EXACT"},
      {"receive_buffers", "receive_buffers: -1", "plan.receive_buffers = -1 must be at least 1"},
      {"send_buffers", "send_buffers: -1", "plan.send_buffers = -1 must be at least 1"},
      {"gradient_bucket_bytes", "gradient_bucket_bytes: -1", "plan.gradient_bucket_bytes = -1 must be at least 0"},
  };
  // Names of schedules and collectives belong to their registries.
  CheckTable<Plan>(base, table, {"schedule.name", "collective", "step_barrier"},
                   [](Plan* plan) { return ValidateAndResolve(plan, CpuDevice()); });
}

const char kCluster[] = R"(
  name: "c" source: "nowhere" nodes: 2 devices_per_node: 4 nics_per_node: 1
  device {
    name: "d" memory_bytes: 1000000 memory_bytes_per_second: 1e9 reserved_bytes: 1000
    peaks { dtype: FP32 flops_per_second: 1e10 }
    matmul_efficiency { from: 0 fraction: 0.5 }
    memory_efficiency { from: 10 fraction: 1 }
    kernel_rates { kernel: "MATMUL" dtype: FP32 flops_per_second: 1e9 }
    kernel_rates { kernel: "MATMUL" dtype: FP32 from_work: 100 flops_per_second: 2e9 }
  }
  intra_node { bytes_per_second: 1e9 } inter_node { bytes_per_second: 1e8 } host { bytes_per_second: 1e9 }
)";

TEST(ValidateCluster, AcceptsAGoodOne) {
  EXPECT_TRUE(Validate(Parse<Cluster>(kCluster)).ok());
  const absl::Status one = Validate(Parse<Cluster>(R"(
    name: "one" nodes: 1 devices_per_node: 1 device { name: "d" memory_bytes: 1 memory_bytes_per_second: 1
      peaks { dtype: FP64 flops_per_second: 1 } })"));
  EXPECT_TRUE(one.ok()) << one;
}

TEST(ValidateCluster, RefusesEveryBadField) {
  const std::vector<Bad> table = {
      {"name", "name: \"\"", "cluster.name is missing"},
      {"nodes", "nodes: 0", "cluster.nodes = 0 must be at least 1"},
      {"nodes", "nodes: 1000000000", "cluster.nodes * cluster.devices_per_node = 4000000000"},
      {"nodes", "nodes: 9223372036854775807", "cluster.nodes = 9223372036854775807 must be at most"},
      {"devices_per_node", "devices_per_node: -1", "cluster.devices_per_node = -1"},
      {"nics_per_node", "nics_per_node: 0", "cluster.nics_per_node = 0 must be at least 1"},
      {"host_memory_bytes", "host_memory_bytes: -1", "cluster.host_memory_bytes = -1"},
      {"compute_slots_per_node", "compute_slots_per_node: -1", "cluster.compute_slots_per_node = -1"},
      {"device.name", "device { name: \"\" }", "cluster.device.name is missing"},
      {"device.memory_bytes", "device { memory_bytes: 0 }", "cluster.device.memory_bytes = 0 must be at least 1"},
      {"device.memory_bytes_per_second", "device { memory_bytes_per_second: 0 }",
       "cluster.device.memory_bytes_per_second = 0 must be finite and greater than 0"},
      {"device.memory_bytes_per_second", "device { memory_bytes_per_second: inf }",
       "cluster.device.memory_bytes_per_second = inf"},
      {"device.launch_seconds", "device { launch_seconds: -1 }", "cluster.device.launch_seconds = -1"},
      {"device.reserved_bytes", "device { reserved_bytes: -1 }", "cluster.device.reserved_bytes = -1"},
      {"device.reserved_bytes", "device { reserved_bytes: 1000000 }",
       "cluster.device.reserved_bytes = 1000000 must be less than cluster.device.memory_bytes = 1000000"},
      {"device.peaks.dtype", "device { peaks { flops_per_second: 1 } }",
       "cluster.device.peaks[1].dtype = DTYPE_UNSPECIFIED"},
      {"device.peaks.dtype", "device { peaks { dtype: 42 flops_per_second: 1 } }",
       "cluster.device.peaks[1].dtype = 42"},
      {"device.peaks.dtype", "device { peaks { dtype: FP32 flops_per_second: 1 } }", "FP32 is listed twice"},
      {"device.peaks.flops_per_second", "device { peaks { dtype: BF16 } }",
       "cluster.device.peaks[1].flops_per_second = 0"},
      {"device.peaks.flops_per_second", "device { peaks { dtype: BF16 flops_per_second: nan } }", "= nan"},
      {"device.matmul_efficiency.from", "device { matmul_efficiency { from: 0 fraction: 1 } }",
       "cluster.device.matmul_efficiency[1].from = 0 must be greater than that of the row before, 0"},
      {"device.matmul_efficiency.fraction", "device { matmul_efficiency { from: 1 fraction: 1.5 } }",
       "cluster.device.matmul_efficiency[1].fraction = 1.5 must be greater than 0 and at most 1"},
      {"device.memory_efficiency.from", "device { memory_efficiency { from: -1 fraction: 1 } }",
       "cluster.device.memory_efficiency[1].from = -1"},
      {"device.memory_efficiency.from", "device { memory_efficiency { from: nan fraction: 1 } }", "from = nan"},
      {"device.memory_efficiency.fraction", "device { memory_efficiency { from: 11 } }", "fraction = 0"},
      {"device.kernel_rates.kernel", "device { kernel_rates { kernel: \"MATMULL\" dtype: FP32 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].kernel = 'MATMULL' is unknown; nearest: 'MATMUL'"},
      {"device.kernel_rates.kernel",
       "device { kernel_rates { kernel: \"KERNEL_UNSPECIFIED\" dtype: FP32 flops_per_second: 1 } }", "is unknown"},
      {"device.kernel_rates.dtype", "device { kernel_rates { kernel: \"ADD\" bytes_per_second: 1 } }",
       "cluster.device.kernel_rates[2].dtype = DTYPE_UNSPECIFIED"},
      {"device.kernel_rates.from_work",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 from_work: -1 bytes_per_second: 1 } }", "from_work = -1"},
      {"device.kernel_rates.from_work",
       "device { kernel_rates { kernel: \"MATMUL\" dtype: FP32 from_work: 50 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].from_work = 50 must be greater than that of the row before"},
      {"device.kernel_rates.flops_per_second",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 flops_per_second: -1 } }", "flops_per_second = -1"},
      {"device.kernel_rates.flops_per_second",
       "device { kernel_rates { kernel: \"MATMUL\" dtype: FP32 from_work: 500 bytes_per_second: 1 } }",
       "flops_per_second = 0 differs in kind"},
      {"device.kernel_rates.bytes_per_second",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 bytes_per_second: nan } }", "bytes_per_second = nan"},
      {"device.kernel_rates.overhead_seconds",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 overhead_seconds: -1 } }", "overhead_seconds = -1"},
      {"device.kernel_rates.overhead_seconds", "device { kernel_rates { kernel: \"ADD\" dtype: FP32 } }",
       "has neither a rate nor an overhead"},
      {"intra_node.bytes_per_second", "intra_node { bytes_per_second: 0 }", "cluster.intra_node.bytes_per_second = 0"},
      {"intra_node.latency_seconds", "intra_node { latency_seconds: -1 }", "cluster.intra_node.latency_seconds = -1"},
      {"intra_node.overhead_seconds", "intra_node { overhead_seconds: nan }",
       "cluster.intra_node.overhead_seconds = nan"},
      {"inter_node.bytes_per_second", "inter_node { bytes_per_second: inf }",
       "cluster.inter_node.bytes_per_second = inf"},
      {"inter_node.latency_seconds", "inter_node { latency_seconds: -1 }", "cluster.inter_node.latency_seconds = -1"},
      {"inter_node.overhead_seconds", "inter_node { overhead_seconds: -1 }",
       "cluster.inter_node.overhead_seconds = -1"},
      {"host.bytes_per_second", "host { bytes_per_second: -1 }", "cluster.host.bytes_per_second = -1"},
      {"host.latency_seconds", "host { latency_seconds: -1 }", "cluster.host.latency_seconds = -1"},
      {"host.overhead_seconds", "host { overhead_seconds: -1 }", "cluster.host.overhead_seconds = -1"},
  };
  CheckTable<Cluster>(Parse<Cluster>(kCluster), table, {"source"}, [](Cluster* c) { return Validate(*c); });
}

TEST(ValidateCluster, RefusesMissingParts) {
  const auto error = [](const std::function<void(Cluster*)>& change) {
    Cluster cluster = Parse<Cluster>(kCluster);
    change(&cluster);
    return std::string(Validate(cluster).message());
  };
  EXPECT_THAT(error([](Cluster* c) { c->clear_device(); }), HasSubstr("cluster.device is missing"));
  EXPECT_THAT(error([](Cluster* c) { c->mutable_device()->clear_peaks(); }), HasSubstr("peaks is missing"));
  EXPECT_THAT(error([](Cluster* c) { c->clear_intra_node(); }), HasSubstr("cluster.intra_node is missing"));
  EXPECT_THAT(error([](Cluster* c) { c->clear_inter_node(); }), HasSubstr("cluster.inter_node is missing"));
}

TEST(ValidateTogether, PlanNeedsDevices) {
  const Cluster cluster = Parse<Cluster>(kCluster);
  Plan plan = Parse<Plan>("mesh { axes { name: \"data\" size: 2 } axes { name: \"pipe\" size: 4 } }");
  EXPECT_TRUE(ValidateTogether(plan, cluster).ok());
  plan.mutable_mesh()->mutable_axes(0)->set_size(3);
  EXPECT_EQ(std::string(ValidateTogether(plan, cluster).message()),
            "plan.mesh has 12 ranks; cluster 'c' has 2 * 4 = 8 devices");
}

// Every kind of op once; the table is tied.
const char kGraph[] = R"(
  name: "m" vocabulary: 50 maximum_positions: 16 loss: "loss"
  parameters { name: "wte" shape: [50, 8] init { normal: 0.02 } vocabulary_rows: true }
  parameters { name: "wpe" shape: [16, 8] init { normal: 0.02 } }
  parameters { name: "g" shape: 8 init { constant: 1 } }
  parameters { name: "b" shape: 8 init { constant: 0 } }
  parameters { name: "w" shape: [8, 24] init { normal: 0.02 } }
  parameters { name: "wb" shape: 24 init { constant: 0 } }
  ops { name: "tokens" kind: "tokens" outputs: "ids" }
  ops { name: "e" kind: "embedding" inputs: ["ids", "wte"] outputs: "e" }
  ops { name: "p" kind: "position_embedding" inputs: "wpe" outputs: "p" }
  ops { name: "x" kind: "add" inputs: ["e", "p"] outputs: "x" }
  ops { name: "n" kind: "layer_norm" inputs: ["x", "g", "b"] outputs: "n" layer: 1 attributes { epsilon: 1e-5 } }
  ops { name: "qkv" kind: "matmul" inputs: ["n", "w", "wb"] outputs: "qkv" layer: 1 }
  ops { name: "a" kind: "attention" inputs: "qkv" outputs: "a" layer: 1 attributes { heads: 2 causal: true } }
  ops { name: "d" kind: "dropout" inputs: "a" outputs: "d" layer: 1 attributes { dropout: 0.1 } }
  ops { name: "act" kind: "gelu" inputs: "d" outputs: "act" layer: 1 attributes { tanh_approximation: true } }
  ops { name: "head" kind: "matmul" inputs: ["act", "wte"] outputs: "logits" layer: 2 attributes { transpose_b: true } }
  ops { name: "targets" kind: "targets" outputs: "targets" layer: 2 }
  ops { name: "loss" kind: "cross_entropy" inputs: ["logits", "targets"] outputs: "loss" layer: 2 }
)";

TEST(ValidateModelGraph, AcceptsEveryKind) {
  const absl::Status status = Validate(Parse<ModelGraph>(kGraph));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ValidateModelGraph, RefusesEveryBadField) {
  const std::vector<Bad> table = {
      {"name", "name: \"\"", "model_graph.name is missing"},
      {"vocabulary", "vocabulary: 0", "model_graph.vocabulary = 0 must be at least 1"},
      {"vocabulary", "vocabulary: 9223372036854775807", "model_graph.vocabulary"},
      {"vocabulary", "vocabulary: 51", "model_graph.parameters[0].shape[0] = 50 must be model_graph.vocabulary = 51"},
      {"maximum_positions", "maximum_positions: -1", "model_graph.maximum_positions = -1"},
      {"maximum_positions", "maximum_positions: 17", "model_graph.maximum_positions = 17 must be from 1 to 16"},
      {"maximum_positions", "maximum_positions: 0", "model_graph.maximum_positions = 0 must be from 1 to 16"},
      {"loss", "loss: \"\"", "model_graph.loss is missing"},
      {"loss", "loss: \"logits\"", "model_graph.loss = 'logits' must be the output of a cross_entropy op"},
      {"parameters.name", "parameters[1].name=wte", "model_graph.parameters[1].name = 'wte' is taken"},
      {"parameters.name", "parameters[1].name=", "model_graph.parameters[1].name is missing"},
      {"parameters.shape", "parameters[4].shape=8,0", "model_graph.parameters[4].shape[1] = 0 must be at least 1"},
      {"parameters.shape", "parameters[4].shape=", "must have one or two dimensions"},
      {"parameters.shape", "parameters[4].shape=8,8,8", "must have one or two dimensions"},
      {"parameters.shape", "parameters[4].shape=2000000000,2000000000", "elements of model_graph.parameters[4]"},
      {"parameters.shape", "parameters[4].shape=9,24",
       "(matmul 'qkv').inputs[1] = 'w' has shape [9, 24]; it must have shape [8, n]"},
      {"parameters.shape", "parameters[5].shape=23",
       "(matmul 'qkv').inputs[2] = 'wb' has shape [23]; it must have shape [24]"},
      {"parameters.shape", "parameters[2].shape=8,1", "(layer_norm 'n').inputs[1] = 'g' has shape [8, 1]"},
      {"parameters.shape", "parameters[3].shape=9", "(layer_norm 'n').inputs[2] = 'b' has shape [9]"},
      {"parameters.shape", "parameters[1].shape=16,7", "(add 'x').inputs[1] = 'p' has 7 columns; it must have 8"},
      {"parameters.shape", "parameters[1].shape=16", "(position_embedding 'p').inputs[0] = 'wpe' has shape [16]"},
      {"parameters.init.normal", "parameters[0].init.normal=-1", "model_graph.parameters[0].init.normal = -1"},
      {"parameters.init.normal", "parameters { name: \"q\" shape: 1 init { normal: nan } }", "init.normal = nan"},
      {"parameters.init.constant", "parameters { name: \"q\" shape: 1 init { constant: inf } }", "init.constant = inf"},
      {"parameters.init.constant", "parameters { name: \"q\" shape: 1 }", "model_graph.parameters[6].init is missing"},
      {"parameters.vocabulary_rows", "parameters[1].vocabulary_rows=true", "as vocabulary_rows says"},
      {"parameters.name", "parameters { name: \"q\" shape: 1 init { normal: 0 } }", "= 'q' is read by no op"},
      {"ops.name", "ops[2].name=", "model_graph.ops[2].name is missing"},
      {"ops.name", "ops[2].name=e", "model_graph.ops[2].name = 'e' is taken by model_graph.ops[1]"},
      {"ops.kind", "ops[8].kind=gleu", "model_graph.ops[8].kind = 'gleu' is unknown; nearest: 'gelu'"},
      {"ops.inputs", "ops[3].inputs=e", "(add 'x').inputs has 1 names; add takes 2"},
      {"ops.inputs", "ops[5].inputs=n", "(matmul 'qkv').inputs has 1 names; matmul takes 2 or 3"},
      {"ops.inputs", "ops[5].inputs=m,w", "inputs[0] = 'm' is neither a parameter nor the output of an earlier op"},
      {"ops.inputs", "ops[6].inputs=qvk", "nearest: 'qkv'"},
      {"ops.inputs", "ops[3].inputs=e,logits", "'logits' is neither a parameter nor the output of an earlier op"},
      {"ops.inputs", "ops[1].inputs=wpe,wte", "'wpe' is a parameter; it must be the ids of a tokens op"},
      {"ops.inputs", "ops[11].inputs=logits,ids",
       "'ids' is the ids of a tokens op; it must be the ids of a targets op"},
      {"ops.inputs", "ops[8].inputs=a", "= 'd' is read by no op"},
      {"ops.inputs", "ops[1].inputs=ids,wpe", "must have shape [model_graph.vocabulary = 50, columns]"},
      {"ops.inputs", "ops[11].inputs=act,targets", "'act' has 8 columns; it must have model_graph.vocabulary = 50"},
      {"ops.outputs", "ops[3].outputs=", "(add 'x').outputs has 0 names; it must have 1"},
      {"ops.outputs", "ops[3].outputs=x,y", "(add 'x').outputs has 2 names; it must have 1"},
      {"ops.outputs", "ops[3].outputs=e", "(add 'x').outputs[0] = 'e' is taken"},
      {"ops.outputs", "ops[3].outputs=w", "(add 'x').outputs[0] = 'w' is taken by model_graph.parameters[4]"},
      {"ops.layer", "ops[0].layer=1", "(tokens 'tokens').layer = 1 must be 0"},
      {"ops.layer", "ops[4].layer=2", "(layer_norm 'n').layer = 2 must be 0 or 1"},
      {"ops.layer", "ops[6].layer=0", "(attention 'a').layer = 0 must be 1 or 2"},
      {"ops.layer", "ops[6].layer=-1", "(attention 'a').layer = -1 must be"},
      {"ops.attributes.transpose_b", "ops[9].attributes.transpose_b=false",
       "(matmul 'head').inputs[1] = 'wte' has shape [50, 8]; it must have shape [8, n]"},
      {"ops.attributes.transpose_b", "ops[3].attributes.transpose_b=true",
       "(add 'x').attributes.transpose_b is no attribute of add; it has none"},
      {"ops.attributes.epsilon", "ops[4].attributes.epsilon=0", "(layer_norm 'n').attributes.epsilon = 0"},
      {"ops.attributes.heads", "ops[6].attributes.heads=3", "it must have a multiple of 3 * heads = 9 columns"},
      {"ops.attributes.heads", "ops[6].attributes.heads=0", "(attention 'a').attributes.heads = 0 must be at least 1"},
      {"ops.attributes.heads", "ops[6].attributes.heads=9223372036854775807", "attributes.heads = 92233"},
      {"ops.attributes.causal", "ops[7].attributes.causal=true", "causal is no attribute of dropout; known: dropout"},
      {"ops.attributes.scale", "ops[6].attributes.scale=-1", "(attention 'a').attributes.scale = -1"},
      {"ops.attributes.dropout", "ops[7].attributes.dropout=1", "(dropout 'd').attributes.dropout = 1"},
      {"ops.attributes.dropout", "ops[6].attributes.dropout=-0.5", "(attention 'a').attributes.dropout = -0.5"},
      {"ops.attributes.tanh_approximation", "ops[7].attributes.tanh_approximation=true", "is no attribute of dropout"},
      {"ops.kind", "ops { name: \"z\" kind: \"gelu\" inputs: \"x\" outputs: \"z\" layer: 2 }", "comes after the loss"},
  };
  CheckTable<ModelGraph>(Parse<ModelGraph>(kGraph), table, {}, [](ModelGraph* g) { return Validate(*g); });
  EXPECT_THAT(std::string(Validate(Parse<ModelGraph>("name: \"m\" vocabulary: 5")).message()),
              HasSubstr("model_graph.ops is empty"));
}

TEST(ValidateTogether, SequenceMustFitTheModel) {
  const ModelGraph graph = Parse<ModelGraph>(kGraph);
  Recipe recipe;
  recipe.set_sequence_length(16);
  EXPECT_TRUE(ValidateTogether(recipe, graph).ok());
  recipe.set_sequence_length(17);
  EXPECT_EQ(std::string(ValidateTogether(recipe, graph).message()),
            "recipe.sequence_length = 17 must be at most 16, the maximum_positions of model 'm'");
}

}  // namespace
}  // namespace weft
