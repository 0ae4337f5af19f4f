#include "cli/process/large_pages.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace weft {

void UseLargePages() {
#ifdef __GLIBC__
  // Growing the heap by this step reserves only address space: pages that are not touched take no memory.
  constexpr int kStep = 64 << 20;
  constexpr uintptr_t kPage = 2 << 20;
  mallopt(M_TOP_PAD, kStep);
  mallopt(M_TRIM_THRESHOLD, 4 * kStep);
  // The highest threshold that glibc itself would choose. Larger blocks are returned to the system when they are freed.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  const uintptr_t before = reinterpret_cast<uintptr_t>(sbrk(0));
  // Larger than the rest of the heap, so that the heap grows.
  void* volatile probe = std::malloc(1 << 20);
  std::free(probe);
  const uintptr_t begin = (before + kPage - 1) & ~(kPage - 1), end = reinterpret_cast<uintptr_t>(sbrk(0));
  // A kernel without large pages refuses, which does no harm.
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace weft
