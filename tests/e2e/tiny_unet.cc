#include "tests/e2e/tiny_unet.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/models/unet_graph.h"
#include "executor/data/image_format.h"
#include "planner/compile.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "tests/e2e/tiny_mesh.h"

namespace weft {
namespace {

ModelGraph TinyUnet(bool scale_shift) {
  UnetShape shape;
  shape.image_size = 8;
  shape.channels = 8;
  shape.channel_mult = {1, 2};
  shape.blocks = 1;
  shape.attention_sides = {4};
  shape.heads = shape.heads_up = 2;
  shape.groups = 4;
  shape.dropout = 0.1;
  shape.diffusion_steps = 100;
  shape.scale_shift = scale_shift;
  return BuildUnetGraph(shape, "tiny");
}

std::string MeshOf(const UnetPlan& plan) {
  return AxesOf(plan.mesh.empty() ? absl::StrCat("data", plan.data, " pipe", plan.pipe) : plan.mesh);
}

}  // namespace

std::string UnetPlan::Name() const {
  return absl::StrCat(mesh.empty() ? absl::StrCat("pipe ", pipe, " data ", data) : mesh, " ", schedule, " ",
                      schedule_fields, " ", plan_fields, " recompute ", recompute, exact ? " exact" : "",
                      bf16 ? " bf16" : "", fp16 ? " fp16" : "", fp64 ? " fp64" : "",
                      scale_shift ? " scale and shift" : "", " threads ", threads);
}

Cluster TinyCluster() {
  return *ParseTiny<Cluster>(
      "name: 'test' nodes: 1 devices_per_node: 16 device { name: 'cpu' memory_bytes: 1000000000 "
      "memory_bytes_per_second: 1e10 peaks { dtype: FP32 flops_per_second: 1e11 } "
      "peaks { dtype: BF16 flops_per_second: 1e11 } peaks { dtype: FP64 flops_per_second: 1e11 } "
      "peaks { dtype: FP16 flops_per_second: 1e11 } } intra_node { "
      "bytes_per_second: 1e10 latency_seconds: 1e-6 } host { bytes_per_second: 1e10 }");
}

absl::StatusOr<Program> CompileUnet(const UnetPlan& plan, int sequence_length) {
  WEFT_ASSIGN_OR_RETURN(
      const Recipe recipe,
      ParseTiny<Recipe>(absl::StrCat("sequence_length: ", sequence_length, " global_batch_sequences: ", plan.batch, " ",
                                     "microbatch_sequences: ", plan.microbatch, " dropout: ", plan.dropout,
                                     " seed: 77 clip_norm: ", plan.clip_norm, " steps: ", plan.steps, " ",
                                     "lr { peak: ", plan.learning_rate, " } adamw {}")));
  const char* precision =
      plan.fp64   ? "precision { compute: FP64 params: FP64 grads: FP64 reduce: FP64 master: FP64 moments: FP64 }"
      : plan.fp16 ? "precision { compute: FP16 grads: FP16 }"
      : plan.bf16 ? "precision { compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32 }"
                  : "precision { compute: FP32 params: FP32 grads: FP32 reduce: FP32 master: FP32 moments: FP32 }";
  WEFT_ASSIGN_OR_RETURN(
      const Plan message,
      ParseTiny<Plan>(absl::StrCat("mesh { ", MeshOf(plan), " } schedule { name: '", plan.schedule, "' ",
                                   plan.schedule_fields, " } ", plan.plan_fields, " recompute { mode: ", plan.recompute,
                                   " } accumulation: ", plan.exact ? "EXACT" : "IN_ORDER", " ", precision)));
  return planner::CompilePlan(TinyUnet(plan.scale_shift), recipe, message, TinyCluster(), {});
}

absl::Status WriteTinyImages(const std::string& path) {
  const exec::ImageLayout layout = {.count = 20, .channels = 3, .height = 8, .width = 8, .bytes_per_element = 1};
  std::string bytes = exec::ImageFileHeader(layout);
  for (int image = 0; image < 20; ++image) {
    for (int i = 0; i < 8 * 8 * 3; ++i) {
      bytes += static_cast<char>(static_cast<int>(127.5 + 120 * std::sin(0.3 * image + 0.05 * (image % 3 + 1) * i)));
    }
  }
  return WriteFileAtomic(path, bytes);
}

}  // namespace weft
