// Makes a CPU backend with chosen inner loops, for tests and benchmarks. All other code calls MakeCpuBackend.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_H_

#include <memory>

#include "executor/backends/cpu/cpu_loops.h"
#include "executor/interface/backend.h"

namespace weft::exec::cpu {

std::unique_ptr<Backend> MakeCpuBackendWithLoops(int threads, const LoopTable& loops);

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_H_
