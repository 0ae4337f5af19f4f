// Rules P4 and P8 between roles: matches each SEND with its RECV, and finds the members of each collective.
// CheckDeadlock (P13) then checks the graph that these matches complete.
#ifndef WEFT_VERIFIER_MATCHING_H_
#define WEFT_VERIFIER_MATCHING_H_

#include <vector>

#include "verifier/index.h"

namespace weft::verify {

// One action of one role, or one collective step of it.
struct RoleAction {
  int role = 0;
  int action = 0;  // Index into TemplateIndex::actions.
  int part = -1;   // For a step: the part of its segment.
};

// Actions that start together: a SEND and its RECV, or a collective on all its roles.
using Rendezvous = std::vector<RoleAction>;

struct Matching {
  std::vector<Rendezvous> rendezvous;
  // of[role][action] = index into rendezvous, -1 for compute.
  std::vector<std::vector<int>> of;
  // Collective steps of several roles. A step whose members are all of one role starts when that role is ready.
  std::vector<Rendezvous> steps;
};

Matching CheckMatching(const Index& index, Findings* findings);

// For each list, the actions of all roles in an order in which they may run. A rendezvous appears once, as the action
// of its first member.
struct ListOrders {
  std::vector<RoleAction> prologue, body;
};
// Proves that the lists cannot deadlock (P13.deadlock). Returns empty lists after a finding.
ListOrders CheckDeadlock(const Index& index, const Matching& matching, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_MATCHING_H_
