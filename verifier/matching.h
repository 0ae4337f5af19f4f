// Rules P4 and P8 between roles: which SEND belongs to which RECV, and who takes part in which collective; and the
// graph of rule P13 over them.
#ifndef WEFT_VERIFIER_MATCHING_H_
#define WEFT_VERIFIER_MATCHING_H_

#include <vector>

#include "verifier/index.h"

namespace weft::verify {

// One action of one role, or one collective step of it.
struct RoleAction {
  int role = 0;
  int action = 0;  // Index into TemplateIndex::actions.
  int part = -1;   // Of a step: the part of its segment.
};

// What starts together: a SEND and its RECV, or a collective on all its roles.
using Rendezvous = std::vector<RoleAction>;

struct Matching {
  std::vector<Rendezvous> rendezvous;
  // of[role][action] = index into rendezvous, -1 for compute.
  std::vector<std::vector<int>> of;
  // Collective steps of several roles. One whose members are all of one role starts when that role is there.
  std::vector<Rendezvous> steps;
};

Matching CheckMatching(const Index& index, Findings* findings);

// Of each list the actions of all roles in an order in which they may run, each rendezvous once (its first member).
struct ListOrders {
  std::vector<RoleAction> prologue, body;
};
// Proves that the lists cannot deadlock (P13.deadlock). Empty after a finding.
ListOrders CheckDeadlock(const Index& index, const Matching& matching, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_MATCHING_H_
