#include "executor/host_pages.h"

#include <sys/mman.h>

#include "executor/parallel_ranges.h"

namespace weft {
namespace {

constexpr int64_t kLarge = int64_t{1} << 21, kSmall = 4096;

int64_t Whole(int64_t bytes) { return (bytes + kLarge - 1) / kLarge * kLarge; }

}  // namespace

void* MapHostPages(int64_t bytes) {
  const int64_t size = Whole(bytes);
  // Mappings begin at any small page: one large page more, and what is too much of it goes back.
  void* const mapped =
      mmap(nullptr, static_cast<size_t>(size + kLarge), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const auto before = static_cast<int64_t>((kLarge - address % kLarge) % kLarge);
  char* const memory = begin + before;
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  munmap(memory + size, static_cast<size_t>(kLarge - before));
  // Advice: without it pages are small.
  madvise(memory, static_cast<size_t>(size), MADV_HUGEPAGE);
  // A part of the range per core, in whole large pages.
  ParallelRanges(size / kLarge, 32, [memory](int64_t first, int64_t last) {
    for (int64_t at = first * kLarge; at < last * kLarge; at += kSmall) *static_cast<volatile char*>(memory + at) = 0;
  });
  return memory;
}

void UnmapHostPages(void* memory, int64_t bytes) { munmap(memory, static_cast<size_t>(Whole(bytes))); }

}  // namespace weft
