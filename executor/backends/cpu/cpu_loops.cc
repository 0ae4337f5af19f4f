#include "executor/backends/cpu/cpu_loops.h"

#include <cstdlib>
#include <cstring>

namespace weft::exec::cpu {

// Each table is defined by cpu_loops_table.cc, which is compiled once per instruction set.
extern const LoopTable kLoopsBaseline;
#if defined(__x86_64__)
extern const LoopTable kLoopsAvx2;
extern const LoopTable kLoopsAvx512;
#endif

namespace {

bool Supported(const LoopTable& table) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (&table == &kLoopsAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  }
  if (&table == &kLoopsAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return true;
}

const LoopTable* const kTables[] = {
#if defined(__x86_64__)
    &kLoopsAvx512,
    &kLoopsAvx2,
#endif
    &kLoopsBaseline,
};

const LoopTable& ChooseLoops() {
  if (const char* name = std::getenv("WEFT_CPU_LOOPS")) {
    if (const LoopTable* table = FindLoops(name)) return *table;
  }
  for (const LoopTable* table : kTables) {
    if (Supported(*table)) return *table;
  }
  return kLoopsBaseline;
}

}  // namespace

const LoopTable& BestLoops() {
  static const LoopTable& table = ChooseLoops();
  return table;
}

const LoopTable* FindLoops(const char* name) {
  for (const LoopTable* table : kTables) {
    if (std::strcmp(table->name, name) == 0 && Supported(*table)) return table;
  }
  return nullptr;
}

}  // namespace weft::exec::cpu
