// Checks groups of ranks (rule P8.group) in programs that are not validated yet.
#ifndef WEFT_PROTO_UTIL_GROUPS_H_
#define WEFT_PROTO_UTIL_GROUPS_H_

#include <string>

#include "proto/program.pb.h"

namespace weft {

// Describes what is wrong with a group of a mesh; returns "" if nothing is.
std::string GroupFault(const Mesh& mesh, const Group& group);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_GROUPS_H_
