// Memory of the host in large pages that all cores bring in: some tens of GiB that a device is to read and write.
#ifndef WEFT_EXECUTOR_PLATFORM_HOST_PAGES_H_
#define WEFT_EXECUTOR_PLATFORM_HOST_PAGES_H_

#include <cstdint>
#include <functional>

#include "executor/platform/memory_left.h"

namespace weft::exec {

// Zeros, at a multiple of 2 MiB, each page there already: in large pages where the system has them, of 4 KiB else.
// `bytes` >= 1. Null where the system refuses so much, and where it is more than `left()`, bytes, asked before the
// first page is touched and again on the way: nothing of it is held then. The system brings in a page when it is first
// written to, which for 90 GiB takes a core most of a minute, and whoever pins memory page by page does it on one.
void* MapHostPages(int64_t bytes, const std::function<int64_t()>& left = [] { return MemoryLeft(); });

// What MapHostPages(bytes) has given.
void UnmapHostPages(void* memory, int64_t bytes);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_HOST_PAGES_H_
