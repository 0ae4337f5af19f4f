// A U-Net of a few thousand parameters, compiled for any small plan, and images to train it on.
#ifndef WEFT_TESTS_E2E_TINY_UNET_H_
#define WEFT_TESTS_E2E_TINY_UNET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft {

struct UnetPlan {
  int pipe = 1;
  int data = 1;
  std::string schedule = "1f1b";
  // The mode and further fields of the plan's recompute.
  std::string recompute = "NONE";
  bool exact = false;
  bool bf16 = false;
  // Further fields of the plan's schedule and of the plan, as text.
  std::string schedule_fields = "";
  std::string plan_fields = "";
  int threads = 1;
  double clip_norm = 0.5;
  // If set, replaces `pipe` and `data`: axes and sizes, innermost first, as in "x2 data2".
  std::string mesh = "";
  int microbatch = 1;
  int batch = 8;
  double learning_rate = 0.02;
  bool fp64 = false;
  // If true, the time embedding scales and shifts the channels; otherwise it is added to them.
  bool scale_shift = false;
  bool fp16 = false;
  double dropout = 0.1;
  int steps = 6;

  std::string Name() const;
};

// Compiles a U-Net for images of 8 x 8 x 3. It has 12 layers, on two levels with one block each. By default clipping is
// active. The optimizer is AdamW.
absl::StatusOr<Program> CompileUnet(const UnetPlan& plan, int sequence_length = 64);

// The cluster that CompileUnet compiles for.
Cluster TinyCluster();

// Writes twenty images of smooth waves to `path`.
absl::Status WriteTinyImages(const std::string& path);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_TINY_UNET_H_
