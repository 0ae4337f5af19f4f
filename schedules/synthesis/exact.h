// Exact search for small problems, by the solver Z3.
#ifndef WEFT_SCHEDULES_SYNTHESIS_EXACT_H_
#define WEFT_SCHEDULES_SYNTHESIS_EXACT_H_

#include <cstdint>

#include "schedules/synthesis/slot_graph.h"

namespace weft {

enum class ExactAnswer { kFound, kNone, kUnknown };

// False if weft was built without Z3. Then ExactSearch always returns kUnknown.
bool HasExactSearch();

// Problem: is there an order of the graph's slots with a makespan of at most `deadline`? The graph must have one lane.
// Method:  the disjunctive model of a job shop in difference logic. Each slot has a start, between its head and
//          `deadline` minus its tail (SlotBounds). For each two slots of a rank whose order does not follow from the
//          data and the order of microbatches, a boolean says which one runs first. If one runs before another, the
//          earlier ones of its group do too. The cap is one linear inequality over these booleans at each forward.
// Cost:    exponential; `work` bounds it, in Z3's units of work (rlimit), so that the answer is the same on every
//          machine with the same Z3.
// If the answer is kFound, `order` has the order that was found. kNone proves that there is none.
//
// Why Z3: difference logic is made for "a before b or b before a"; the linear relaxation of that (CBC) says nothing
// about makespans, and Gecode lacks the learning of conflicts that proofs need.
//
// Source:  Manne 1960, "On the job-shop scheduling problem", Operations Research 8 (the model); de Moura and Bjorner
//          2008, "Z3: an efficient SMT solver", TACAS.
ExactAnswer ExactSearch(const SlotGraph& graph, int64_t deadline, uint32_t work, SlotOrder& order);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_EXACT_H_
