// Allocates tens of GiB of host memory that a device will read and write: in large pages, which all cores touch first
// so that the kernel provides them in parallel.
#ifndef WEFT_EXECUTOR_PLATFORM_HOST_PAGES_H_
#define WEFT_EXECUTOR_PLATFORM_HOST_PAGES_H_

#include <cstdint>
#include <functional>

#include "executor/platform/memory_left.h"

namespace weft::exec {

// Returns zeroed memory at a multiple of 2 MiB, with every page present: large pages where the system has them, else
// pages of 4 KiB. `bytes` >= 1. Null if the system refuses the size, or if it is more than `left()` bytes; no memory is
// held then. `left` is called before the first page is touched and again on the way.
//
// The system brings in a page when it is first written to. For 90 GiB that takes one core most of a minute, and code
// that pins memory page by page does it on one core.
void* MapHostPages(int64_t bytes, const std::function<int64_t()>& left = [] { return MemoryLeft(); });

// Frees memory that MapHostPages(bytes) returned.
void UnmapHostPages(void* memory, int64_t bytes);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_HOST_PAGES_H_
