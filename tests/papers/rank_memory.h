// Memory of the ranks of a program as another framework has it: what it keeps beyond what weft plans depends on the
// rank, as one has the weights' versions and another the logits, so the fullest rank is found among all.
#ifndef WEFT_TESTS_PAPERS_RANK_MEMORY_H_
#define WEFT_TESTS_PAPERS_RANK_MEMORY_H_

#include <cstdint>
#include <map>

#include "proto/program.pb.h"

namespace weft {

struct FrameworkMemory {
  // Bytes that the framework keeps, relative to weft's.
  double activation_factor = 1;
  double gradient_factor = 1;
  // By stage, bytes that weft saves of one microbatch where nothing is computed again (SavedByStage): a framework that
  // computes a whole stage again before its backward begins holds all of it, of the largest of a rank's stages. Empty:
  // nothing is computed again, or layer by layer as weft does.
  std::map<int32_t, double> recomputed = {};
};

// Of the fullest rank: arena, and what the framework has besides. Without the device's reserve.
double MostBytes(const Program& program, const FrameworkMemory& framework);

// Bytes of saved activations of each rank's arena, by the stage of its forwards; the most of several ranks.
std::map<int32_t, double> SavedByStage(const Program& program);

}  // namespace weft

#endif  // WEFT_TESTS_PAPERS_RANK_MEMORY_H_
