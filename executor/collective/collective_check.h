// Checks, before ranks meet, that a transport can run all collectives of a program.
#ifndef WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_CHECK_H_
#define WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/program.pb.h"

namespace weft::exec {

// InvalidArgument, naming an action, if a collective has no messages between its members. That is so if switches of the
// network sum it, or if it has more members than a plan can have. Only a transport with collectives of its own
// (`native`) can use the switches, and no such transport adds EXACT192. The collectives of the evaluation program are
// checked too. The program must have been verified.
absl::Status CheckCollectives(const Program& program, absl::string_view transport, bool native);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_CHECK_H_
