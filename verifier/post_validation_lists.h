// The parts of the lists of a post-validated template (rule P15). Internal to the verifier.
#ifndef WEFT_VERIFIER_POST_VALIDATION_LISTS_H_
#define WEFT_VERIFIER_POST_VALIDATION_LISTS_H_

#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft::verify {

// Of one list; null where there is none.
struct Repair {
  const Action* validate = nullptr;
  const Action* restore = nullptr;
  const Action* scale = nullptr;
  const Action* optimizer = nullptr;
  // Twins of PostValidationLists::gathers, in its order.
  std::vector<const Action*> gathers;
  const Action* clear = nullptr;
};

struct PostValidationLists {
  std::vector<const Action*> guess;
  Repair body;
  // Twins of `guess`, in its order.
  std::vector<const Action*> again;
  // With KEEP_STATE and OPTIMIZER_STEP, which are named once more.
  std::vector<const Action*> rest;
  const Action* keep = nullptr;
  const Action* optimizer = nullptr;
  // Of the rest: ALL_GATHERs that bring weights together behind the optimizer (ZeRO).
  std::vector<const Action*> gathers;
  Repair epilogue;
};

bool Clips(const Program& program);
// Whether updates may be taken back: gradients are clipped, or a dynamic loss scale may have been too large.
bool Repairs(const Program& program);
// Whether gradients are clipped by a SCALE_GRADIENTS; of a scaled loss the optimizer's kernels do it.
bool ClipsByAction(const Program& program);

// Whether it is an ALL_GATHER into weights.
bool GathersWeights(const Template& t, const Action& action);

// Empty and `lists` filled, or what is wrong.
std::string SplitLists(const Program& program, const Template& t, PostValidationLists* lists);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_POST_VALIDATION_LISTS_H_
