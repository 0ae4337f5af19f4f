// Where ranks are in the mesh, which template they run, and which ranks they communicate with (rules "Expansion" and
// P8).
#ifndef WEFT_SIMULATOR_NAIVE_COORDINATES_H_
#define WEFT_SIMULATOR_NAIVE_COORDINATES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim::naive {

using Coordinates = std::map<std::string, int64_t>;

int64_t Ranks(const Program& program);
Coordinates CoordinatesOf(const Program& program, int64_t rank);
int64_t RankOf(const Program& program, const Coordinates& coordinates);
const Template& TemplateOf(const Program& program, int64_t rank);

// The other end of a SEND or RECV of `rank`.
int64_t PeerOf(const Program& program, int64_t rank, const Action& action);

// The members of the group `group` of `rank`, ascending.
std::vector<int64_t> MembersOf(const Program& program, int64_t rank, const Group& group);

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_COORDINATES_H_
