#include "executor/backends/cuda/kernels/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WEFT_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_FIBER_TSAN 1
#endif
#endif

// Functions that sanitizers require of code that switches stacks.
#ifdef WEFT_FIBER_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old, size_t* size_old);
void __asan_unpoison_memory_region(void const volatile* address, size_t size);
}
#endif
#ifdef WEFT_FIBER_TSAN
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

#if defined(__x86_64__)
// Saves on the stack the registers that a call must preserve, stores the top of the stack in *save, and continues with
// the stack whose top is `load`. Switching by ucontext would cost two system calls each time.
extern "C" void weft_switch_stack(void** save, void* load);
asm(R"(
.text
.p2align 4
.globl weft_switch_stack
.hidden weft_switch_stack
.type weft_switch_stack,@function
weft_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_switch_stack,.-weft_switch_stack
)");
#endif

namespace weft::exec::emulation {
namespace {

#if defined(WEFT_FIBER_ASAN) || defined(WEFT_FIBER_TSAN)
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{64} << 10;
#endif

}  // namespace

struct Fiber::Context {
  void (*function)(void*);
  void* argument;
  // The stack lies after a guard page that must not be accessed.
  char* memory = nullptr;
  size_t guard = 0;
#if defined(__x86_64__)
  void* own_top = nullptr;
  void* caller_top = nullptr;
#else
  ucontext_t own;
  ucontext_t caller;
#endif
#ifdef WEFT_FIBER_ASAN
  void* own_fake_stack = nullptr;
  void* caller_fake_stack = nullptr;
  const void* caller_bottom = nullptr;
  size_t caller_size = 0;
#endif
#ifdef WEFT_FIBER_TSAN
  void* own_tsan = nullptr;
  void* caller_tsan = nullptr;
#endif

  char* bottom() const { return memory + guard; }

  static void Enter();
};

namespace {
// The context that is about to run for the first time.
thread_local void* starting = nullptr;
}  // namespace

void Fiber::Context::Enter() {
  auto* context = static_cast<Context*>(starting);
#ifdef WEFT_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &context->caller_bottom, &context->caller_size);
#endif
  context->function(context->argument);
  std::abort();
}

Fiber::Fiber(void (*function)(void*), void* argument) : context_(std::make_unique<Context>()) {
  Context& c = *context_;
  c.function = function;
  c.argument = argument;
  c.guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, c.guard + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, c.guard, PROT_NONE) != 0) std::abort();
  c.memory = static_cast<char*>(memory);
#if defined(__x86_64__)
  // The new stack looks as if Enter had been called: the registers that the switch pops, then the address that it
  // returns to, then a null return address.
  auto* top = reinterpret_cast<void**>(c.bottom() + kStackBytes) - 10;
  for (int i = 0; i < 10; ++i) top[i] = nullptr;
  top[6] = reinterpret_cast<void*>(&Context::Enter);
  c.own_top = top;
#else
  getcontext(&c.own);
  c.own.uc_stack.ss_sp = c.bottom();
  c.own.uc_stack.ss_size = kStackBytes;
  c.own.uc_link = nullptr;
  makecontext(&c.own, &Context::Enter, 0);
#endif
#ifdef WEFT_FIBER_TSAN
  c.own_tsan = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef WEFT_FIBER_ASAN
  __asan_unpoison_memory_region(context_->bottom(), kStackBytes);
#endif
#ifdef WEFT_FIBER_TSAN
  __tsan_destroy_fiber(context_->own_tsan);
#endif
  munmap(context_->memory, context_->guard + kStackBytes);
}

void Fiber::Resume() {
  Context& c = *context_;
  starting = &c;
#ifdef WEFT_FIBER_ASAN
  __sanitizer_start_switch_fiber(&c.caller_fake_stack, c.bottom(), kStackBytes);
#endif
#ifdef WEFT_FIBER_TSAN
  c.caller_tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(c.own_tsan, 0);
#endif
#if defined(__x86_64__)
  weft_switch_stack(&c.caller_top, c.own_top);
#else
  swapcontext(&c.caller, &c.own);
#endif
#ifdef WEFT_FIBER_ASAN
  __sanitizer_finish_switch_fiber(c.caller_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::Yield() {
  Context& c = *context_;
#ifdef WEFT_FIBER_ASAN
  __sanitizer_start_switch_fiber(&c.own_fake_stack, c.caller_bottom, c.caller_size);
#endif
#ifdef WEFT_FIBER_TSAN
  __tsan_switch_to_fiber(c.caller_tsan, 0);
#endif
#if defined(__x86_64__)
  weft_switch_stack(&c.own_top, c.caller_top);
#else
  swapcontext(&c.own, &c.caller);
#endif
#ifdef WEFT_FIBER_ASAN
  __sanitizer_finish_switch_fiber(c.own_fake_stack, &c.caller_bottom, &c.caller_size);
#endif
}

}  // namespace weft::exec::emulation
