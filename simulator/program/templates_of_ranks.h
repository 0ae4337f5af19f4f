// Finds the template of every rank: TemplateOfRank (proto/util/mesh.h) for all ranks at once, in a fraction of the
// time.
#ifndef WEFT_SIMULATOR_PROGRAM_TEMPLATES_OF_RANKS_H_
#define WEFT_SIMULATOR_PROGRAM_TEMPLATES_OF_RANKS_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// Returns, for each rank, the index of the first template that matches; -1 = none.
std::vector<int32_t> TemplatesOfRanks(const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_TEMPLATES_OF_RANKS_H_
