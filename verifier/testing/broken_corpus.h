// Broken programs. Each breaks one rule of TinyProgram() or another valid program.
#ifndef WEFT_VERIFIER_TESTING_BROKEN_CORPUS_H_
#define WEFT_VERIFIER_TESTING_BROKEN_CORPUS_H_

#include <functional>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft {

struct Broken {
  const char* rule;
  const char* name;
  std::function<void(Program*)> edit;
  // All these texts must be in one message of that rule.
  std::vector<std::string> says;
  // Makes the program to break; TinyProgram() if null.
  std::function<Program()> base = nullptr;
};

// P1, P2: actions, segments.
std::vector<Broken> BrokenActions();
// P4: transfers and collectives.
std::vector<Broken> BrokenTransfers();
// P7, P8: memory, ranks.
std::vector<Broken> BrokenMemory();
// P9: gradients.
std::vector<Broken> BrokenGradients();
// P10, P11: the end of a step.
std::vector<Broken> BrokenUpdates();
// P13: the whole program.
std::vector<Broken> BrokenWhole();
// P13: the evaluation program.
std::vector<Broken> BrokenEvaluation();
// Features of schedules: halves, pairs, width, dynamic order, transfer streams and groups, skip edges.
std::vector<Broken> BrokenSchedules();
// Several replicas of the stages on one pipeline.
std::vector<Broken> BrokenReplicas();
// Features of tensor parallelism and ZeRO: collectives in segments, parts of tensors, sums over several axes.
std::vector<Broken> BrokenCollectives();
std::vector<Broken> BrokenShards();
std::vector<Broken> BrokenSums();
// Steps on parts of tensors.
std::vector<Broken> BrokenElements();
// Features of offload: copies between host and device.
std::vector<Broken> BrokenHost();
// Loss scaling.
std::vector<Broken> BrokenLossScale();

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_BROKEN_CORPUS_H_
