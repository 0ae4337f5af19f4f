// Lists of actions that are made of others.
#ifndef WEFT_COMPILER_REWRITE_ACTION_EDIT_H_
#define WEFT_COMPILER_REWRITE_ACTION_EDIT_H_

#include <map>
#include <vector>

#include "proto/program.pb.h"

namespace weft {

// `action` waits for the one of this id, once.
void AddDep(int on, int distance, bool detached, Action* action);

// Makes `body` the body of `t`, which has no other list. Ids, all different, become positions. Who waits for an action
// that `becomes` names waits for that other one.
void ReplaceBody(std::vector<Action> body, const std::map<int, int>& becomes, Template* t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_ACTION_EDIT_H_
