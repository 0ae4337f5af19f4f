// The traffic of the collectives of a compiled segment.
#ifndef WEFT_TESTS_E2E_COLLECTIVE_VOLUME_H_
#define WEFT_TESTS_E2E_COLLECTIVE_VOLUME_H_

#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace weft {

// Returns one text per collective, in the order of the segment's steps. "weights z 1536": purpose, axis, and the
// elements that each rank sends in a ring.
std::vector<std::string> CollectivesOf(const Program& program, const std::string& segment);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_COLLECTIVE_VOLUME_H_
