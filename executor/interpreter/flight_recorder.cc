#include "executor/interpreter/flight_recorder.h"

#include <algorithm>

#include "executor/interface/transport.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace weft::exec {

int64_t FlightTicks() {
#if defined(__x86_64__)
  return static_cast<int64_t>(__rdtsc());
#else
  return MonotonicNanoseconds();
#endif
}

FlightRecorder::FlightRecorder(int64_t actions)
    : first_ticks_(FlightTicks()), first_ns_(MonotonicNanoseconds()), last_(std::max<int64_t>(0, actions), -1) {}

void FlightRecorder::Convert(Entry* entries, size_t count) const {
  const int64_t passed_ticks = FlightTicks() - first_ticks_;
  const int64_t passed_ns = MonotonicNanoseconds() - first_ns_;
  const double rate = passed_ticks <= 0 ? 0 : static_cast<double>(passed_ns) / static_cast<double>(passed_ticks);
  const auto convert = [&](int64_t ticks) {
    return first_ns_ + static_cast<int64_t>(static_cast<double>(ticks - first_ticks_) * rate);
  };
  for (size_t i = 0; i < count; ++i) {
    Entry& entry = entries[i];
    entry.begin_ns = convert(entry.begin_ns);
    entry.end_ns = entry.end_ns == 0 ? 0 : std::max(entry.begin_ns, convert(entry.end_ns));
  }
}

bool FlightRecorder::Read(int64_t number, Entry* entry) const {
  if (number < 0) return false;
  const Slot& slot = slots_[number % kEntries];
  if (slot.number.load(std::memory_order_acquire) != number) return false;
  entry->number = number;
  entry->action = slot.action.load(std::memory_order_acquire);
  entry->step = slot.step.load(std::memory_order_acquire);
  const int64_t begin = slot.begin.load(std::memory_order_acquire);
  const int64_t end = slot.end.load(std::memory_order_acquire);
  // The writer has reused the slot meanwhile.
  if (slot.number.load(std::memory_order_relaxed) != number) return false;
  entry->begin_ns = begin;
  entry->end_ns = end;
  return true;
}

std::vector<FlightRecorder::Entry> FlightRecorder::Last() const {
  const int64_t end = begun();
  std::vector<Entry> entries;
  entries.reserve(kReported);
  for (int64_t number = std::max<int64_t>(0, end - kReported); number < end; ++number) {
    Entry entry;
    if (Read(number, &entry)) entries.push_back(entry);
  }
  Convert(entries.data(), entries.size());
  return entries;
}

bool FlightRecorder::Inside(Entry* entry) const {
  const int64_t number = entered_.load(std::memory_order_acquire);
  if (!Read(number, entry)) return false;
  const int64_t ticks = entered_ticks_.load(std::memory_order_relaxed);
  // The thread has left that action meanwhile, and may have entered another.
  if (entered_.load(std::memory_order_acquire) != number) return false;
  entry->begin_ns = ticks;
  entry->end_ns = 0;
  Convert(entry, 1);
  return true;
}

}  // namespace weft::exec
