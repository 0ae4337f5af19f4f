// That a transport can run all collectives of a program: known before ranks meet.
#ifndef WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_CHECK_H_
#define WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/program.pb.h"

namespace weft::exec {

// InvalidArgument, naming an action, if a collective has no messages between its members: it is summed by switches of
// the network, which only a transport with collectives of its own (`native`) asks for, or has more members than a plan
// can have. No such transport adds EXACT192. Those of the evaluation program count too. The program is proven.
absl::Status CheckCollectives(const Program& program, absl::string_view transport, bool native);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_CHECK_H_
