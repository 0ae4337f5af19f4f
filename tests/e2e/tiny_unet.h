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
  // The mode, and further fields of the plan's recompute.
  std::string recompute = "NONE";
  bool exact = false;
  bool bf16 = false;
  // Further fields of the plan's schedule, and of the plan, as text.
  std::string schedule_fields = "";
  std::string plan_fields = "";
  int threads = 1;
  double clip_norm = 0.5;
  // "x2 data2": axes and sizes, innermost first; instead of `pipe` and `data`.
  std::string mesh = "";
  int microbatch = 1;
  int batch = 8;
  double learning_rate = 0.02;
  bool fp64 = false;
  // The embedded time scales and shifts instead of being added.
  bool scale_shift = false;
  bool fp16 = false;
  double dropout = 0.1;
  int steps = 6;

  std::string Name() const;
};

// Two levels of one block, 12 layers; images of 8 x 8 x 3; clipping that is active by default, AdamW.
absl::StatusOr<Program> CompileUnet(const UnetPlan& plan, int sequence_length = 64);

// The cluster that it is compiled for.
Cluster TinyCluster();

// Writes twenty images of slow waves to `path`.
absl::Status WriteTinyImages(const std::string& path);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_TINY_UNET_H_
