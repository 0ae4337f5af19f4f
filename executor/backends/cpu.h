// The CPU backend with chosen inner loops, for tests and benchmarks; everyone else calls MakeCpuBackend.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_H_

#include <memory>

#include "executor/backend.h"
#include "executor/backends/cpu_loops.h"

namespace weft::cpu {

std::unique_ptr<Backend> MakeCpuBackendWithLoops(int threads, const LoopTable& loops);

}  // namespace weft::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_H_
