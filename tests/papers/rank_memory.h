// Memory of a program's ranks under another framework. The memory that the framework needs beyond weft's plan depends
// on the rank (one has versions of weights, another the logits), so MostBytes compares all ranks.
#ifndef WEFT_TESTS_PAPERS_RANK_MEMORY_H_
#define WEFT_TESTS_PAPERS_RANK_MEMORY_H_

#include <cstdint>
#include <map>

#include "proto/program.pb.h"

namespace weft {

struct FrameworkMemory {
  // Bytes of activations and of gradients that the framework keeps, relative to weft's.
  double activation_factor = 1;
  double gradient_factor = 1;
  // By stage, bytes that weft saves of one microbatch without recomputation (SavedByStage). A framework that recomputes
  // a whole stage before its backward begins holds these bytes for the largest stage of each rank. Empty if the
  // framework recomputes nothing, or layer by layer as weft does.
  std::map<int32_t, double> recomputed = {};
};

// Bytes of the fullest rank: the arena and what the framework keeps in addition, without the device's reserve.
double MostBytes(const Program& program, const FrameworkMemory& framework);

// Bytes of saved activations in a rank's arena, by the stage of its forwards; the maximum if several ranks have the
// stage.
std::map<int32_t, double> SavedByStage(const Program& program);

}  // namespace weft

#endif  // WEFT_TESTS_PAPERS_RANK_MEMORY_H_
