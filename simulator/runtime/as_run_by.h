// A program as a framework runs it: the same work in another order.
#ifndef WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_
#define WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_

#include <optional>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// On devices of this compute capability. Nothing if the framework's order is the program's. For costing alone: it is
// not proven again, and never run.
std::optional<Program> AsRunBy(const Runtime& runtime, int capability, const Program& program);

}  // namespace weft

#endif  // WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_
