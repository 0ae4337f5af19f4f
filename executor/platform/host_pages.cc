#include "executor/platform/host_pages.h"

#include <sys/mman.h>

#include <algorithm>

#include "executor/platform/parallel_ranges.h"

namespace weft::exec {
namespace {

constexpr int64_t kLarge = int64_t{1} << 21, kSmall = 4096;
// Bytes that are touched between two checks of the memory that is left, so that ranks that allocate at once see each
// other.
constexpr int64_t kBetweenLooks = int64_t{256} << 20;

int64_t Whole(int64_t bytes) { return (bytes + kLarge - 1) / kLarge * kLarge; }

}  // namespace

void* MapHostPages(int64_t bytes, const std::function<int64_t()>& left) {
  const int64_t size = Whole(bytes);
  // Mappings begin at any small page. One more large page is mapped, and the excess is given back.
  void* const mapped =
      mmap(nullptr, static_cast<size_t>(size + kLarge), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const auto before = static_cast<int64_t>((kLarge - address % kLarge) % kLarge);
  char* const memory = begin + before;
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  munmap(memory + size, static_cast<size_t>(kLarge - before));
  // Asks for large pages. Where the system gives them on request only, pages are small without this.
  madvise(memory, static_cast<size_t>(size), MADV_HUGEPAGE);
  for (int64_t done = 0; done < size; done += kBetweenLooks) {
    // The system grants a mapping whether there is memory for it or not. If processes then touch too much, the system
    // kills one of them.
    if (size - done > left()) {
      munmap(memory, static_cast<size_t>(size));
      return nullptr;
    }
    char* const part = memory + done;
    // Each core touches a part of the range, in whole large pages.
    ParallelRanges(std::min(kBetweenLooks, size - done) / kLarge, 4, [part](int64_t first, int64_t last) {
      for (int64_t at = first * kLarge; at < last * kLarge; at += kSmall) *static_cast<volatile char*>(part + at) = 0;
    });
  }
  return memory;
}

void UnmapHostPages(void* memory, int64_t bytes) { munmap(memory, static_cast<size_t>(Whole(bytes))); }

}  // namespace weft::exec
