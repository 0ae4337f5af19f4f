// The parts of the lists of a post-validated template (rule P15). Internal to the verifier.
#ifndef WEFT_VERIFIER_POST_VALIDATION_LISTS_H_
#define WEFT_VERIFIER_POST_VALIDATION_LISTS_H_

#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft::verify {

// The actions of one list that judge an update and repair it; an action that the list does not have is null.
struct Repair {
  const Action* validate = nullptr;
  const Action* restore = nullptr;
  const Action* scale = nullptr;
  const Action* optimizer = nullptr;
  // The gathers that repeat PostValidationLists::gathers, in the same order.
  std::vector<const Action*> gathers;
  const Action* clear = nullptr;
};

struct PostValidationLists {
  std::vector<const Action*> guess;
  Repair body;
  // The actions that repeat `guess`, in the same order.
  std::vector<const Action*> again;
  // All other actions of the body. KEEP_STATE and OPTIMIZER_STEP are among them; `keep` and `optimizer` point to these.
  std::vector<const Action*> rest;
  const Action* keep = nullptr;
  const Action* optimizer = nullptr;
  // The ALL_GATHERs of `rest` that gather weights after the optimizer (ZeRO).
  std::vector<const Action*> gathers;
  Repair epilogue;
};

bool Clips(const Program& program);
// True if updates may be taken back, because gradients are clipped or a dynamic loss scale may have been too large.
bool Repairs(const Program& program);
// True if a SCALE_GRADIENTS clips gradients. With a scaled loss, the optimizer's kernels clip.
bool ClipsByAction(const Program& program);

// True if the action is an ALL_GATHER into weights.
bool GathersWeights(const Template& t, const Action& action);

// Fills `lists` and returns "", or returns what is wrong with the template.
std::string SplitLists(const Program& program, const Template& t, PostValidationLists* lists);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_POST_VALIDATION_LISTS_H_
