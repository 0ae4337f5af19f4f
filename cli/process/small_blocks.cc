#include "cli/process/small_blocks.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_PLAIN_NEW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WEFT_PLAIN_NEW 1
#endif
#endif

#ifdef WEFT_PLAIN_NEW

namespace weft {
size_t SmallBlockBytes() { return 0; }
}  // namespace weft

#else

namespace weft {
namespace {

constexpr size_t kRegion = size_t{4} << 30;
constexpr size_t kSpan = size_t{16} << 10;
constexpr size_t kGrain = 16;
constexpr size_t kLargest = 512;
constexpr size_t kSizes = kLargest / kGrain + 1;
constexpr size_t kLargePage = size_t{2} << 20;
// The first bytes of the region, which have pages of the usual size. Short commands use no more than these.
constexpr size_t kSmallPages = size_t{512} << 10;
// The region becomes usable in steps of this size. A system that does not overcommit memory may count usable memory as
// used.
constexpr size_t kStep = size_t{64} << 20;

struct FreeBlock {
  FreeBlock* next;
};

// A thread's blocks of one size. Sizes are multiples of kGrain.
struct Blocks {
  FreeBlock* free;
  // The part of the latest span that was never used.
  char* fresh;
  char* end;
};

// The start of the region; null if no region is reserved. A thread may still read null after another thread has
// reserved the region, but only while it holds no block of the region.
std::atomic<char*> region{nullptr};
std::atomic<size_t> spans{0};
uint8_t size_of_span[kRegion / kSpan];
thread_local Blocks blocks[kSizes];

// Reserves the region. Returns null if address space is limited: other code needs it more.
char* Reserve() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return nullptr;
  void* all = mmap(nullptr, kLargePage + kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  // The first large page begins right after the small pages.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(all);
  const uintptr_t large = (begin + kSmallPages + kLargePage - 1) & ~(kLargePage - 1);
  char* const reserved = static_cast<char*>(all) + (large - kSmallPages - begin);
  // A kernel without large pages refuses, which does no harm.
  madvise(reserved + kSmallPages, kRegion - kSmallPages, MADV_HUGEPAGE);
  region.store(reserved, std::memory_order_relaxed);
  return reserved;
}

// Makes the first `bytes` of the region usable. Returns false if the system refuses.
bool Usable(char* reserved, size_t bytes) {
  static std::atomic<size_t> usable{0};
  if (bytes <= usable.load(std::memory_order_acquire)) return true;
  static std::mutex growing;
  const std::lock_guard<std::mutex> lock(growing);
  size_t end = usable.load(std::memory_order_relaxed);
  while (end < bytes) {
    // No large page spans two steps.
    const size_t step = end == 0 ? kSmallPages + kStep : kStep;
    const size_t next = end + step < kRegion ? end + step : kRegion;
    if (mprotect(reserved + end, next - end, PROT_READ | PROT_WRITE) != 0) return false;
    end = next;
    usable.store(end, std::memory_order_release);
  }
  return true;
}

// Not inlined, to keep New small.
__attribute__((noinline)) void* FromMalloc(size_t bytes) {
  while (true) {
    if (void* block = std::malloc(bytes)) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

// Begins a span for blocks of `size` and returns its first block. Uses malloc if no span is left.
__attribute__((noinline)) void* FromSpan(size_t size) {
  Blocks& own = blocks[size];
  const size_t bytes = size * kGrain;
  static char* const reserved = Reserve();
  if (reserved == nullptr) return FromMalloc(bytes);
  const size_t span = spans.fetch_add(1, std::memory_order_relaxed);
  if (span >= kRegion / kSpan) {
    spans.fetch_sub(1, std::memory_order_relaxed);
    return FromMalloc(bytes);
  }
  // Give the span up. It cannot be given back, because another thread may have begun the next one.
  if (!Usable(reserved, (span + 1) * kSpan)) return FromMalloc(bytes);
  size_of_span[span] = static_cast<uint8_t>(size);
  char* const begin = reserved + span * kSpan;
  own.fresh = begin + bytes;
  own.end = begin + kSpan;
  return begin;
}

inline void* New(size_t bytes) {
  if (bytes > kLargest) return FromMalloc(bytes);
  const size_t size = bytes == 0 ? 1 : (bytes + kGrain - 1) / kGrain;
  Blocks& own = blocks[size];
  if (FreeBlock* const block = own.free) {
    own.free = block->next;
    return block;
  }
  char* const fresh = own.fresh;
  if (static_cast<size_t>(own.end - fresh) < size * kGrain) return FromSpan(size);
  own.fresh = fresh + size * kGrain;
  return fresh;
}

inline void Delete(void* pointer) {
  // The offset of a null pointer is far outside the region.
  char* const reserved = region.load(std::memory_order_relaxed);
  const uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(reserved);
  if (reserved == nullptr || offset >= kRegion) return std::free(pointer);
  Blocks& own = blocks[size_of_span[offset / kSpan]];
  FreeBlock* const block = static_cast<FreeBlock*>(pointer);
  block->next = own.free;
  own.free = block;
}

}  // namespace

size_t SmallBlockBytes() { return spans.load(std::memory_order_relaxed) * kSpan; }

}  // namespace weft

void* operator new(size_t bytes) { return weft::New(bytes); }
void operator delete(void* pointer) noexcept { weft::Delete(pointer); }
void operator delete(void* pointer, size_t) noexcept { weft::Delete(pointer); }

#endif
