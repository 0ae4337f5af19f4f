#include "simulator/engine/flow_clock.h"

#include <algorithm>
#include <utility>

namespace weft::sim {
namespace {

// The clock counts parts of a byte: a rate of 1 byte per second moves one part, 10^-12 bytes, in a picosecond.
constexpr int64_t kPartsPerByte = 1'000'000'000'000;

int64_t Later(int64_t now, __int128 duration) {
  return duration >= FlowClock::kNever - now ? FlowClock::kNever : now + static_cast<int64_t>(duration);
}

}  // namespace

int32_t FlowClock::Begin(int64_t now, const Flow& flow) {
  int32_t number = static_cast<int32_t>(running_.size());
  if (unused_.empty()) {
    running_.emplace_back();
  } else {
    number = unused_.back();
    unused_.pop_back();
    running_[number] = {};
  }
  running_[number].flow = &flow;
  heap_.push_back(number);
  Up(static_cast<int32_t>(heap_.size()) - 1);
  // A flow without phases ends now. Its end is an event like any other.
  if (!EnterPhase(now, number)) SetEnd(number, now);
  return number;
}

bool FlowClock::EnterPhase(int64_t now, int32_t number) {
  Running& running = running_[number];
  for (; running.phase < running.flow->phases.size(); ++running.phase) {
    const FlowPhase& phase = running.flow->phases[running.phase];
    if (phase.fixed_ps > 0) {
      SetEnd(number, Later(now, phase.fixed_ps));
      return true;
    }
    if (phase.bytes > 0) {
      EnterFlow(now, number);
      return true;
    }
  }
  return false;
}

void FlowClock::EnterFlow(int64_t now, int32_t number) {
  Running& running = running_[number];
  const FlowPhase& phase = running.flow->phases[running.phase];
  running.left = static_cast<__int128>(phase.bytes) * kPartsPerByte;
  running.since = now;
  running.rate = 0;
  running.rated = max_min_.Begin(phase.loads);
  if (running_of_rated_.size() <= static_cast<size_t>(running.rated)) running_of_rated_.resize(running.rated + 1, -1);
  running_of_rated_[running.rated] = number;
  SetEnd(number, kNever);
}

int32_t FlowClock::Advance(int64_t now) {
  const int32_t number = heap_.front();
  Running& running = running_[number];
  if (running.phase < running.flow->phases.size()) {
    if (running.rated < 0 && running.flow->phases[running.phase].bytes > 0) {
      EnterFlow(now, number);
      return -1;
    }
    if (running.rated >= 0) max_min_.End(std::exchange(running.rated, -1));
    ++running.phase;
    if (EnterPhase(now, number)) return -1;
  }
  Remove(number);
  unused_.push_back(number);
  return number;
}

void FlowClock::Solve(int64_t now) {
  for (const int32_t rated : max_min_.Solve()) {
    const int32_t number = running_of_rated_[rated];
    Running& running = running_[number];
    running.left -= static_cast<__int128>(running.rate) * (now - running.since);
    running.since = now;
    running.rate = max_min_.rate(rated);
    SetEnd(number, Later(now, (running.left + running.rate - 1) / running.rate));
  }
}

void FlowClock::Put(int32_t place, int32_t number) {
  heap_[place] = number;
  running_[number].place = place;
}

void FlowClock::SetEnd(int32_t number, int64_t end) {
  Running& running = running_[number];
  const bool earlier = end < running.end;
  running.end = end;
  if (earlier) {
    Up(running.place);
  } else {
    Down(running.place);
  }
}

void FlowClock::Remove(int32_t number) {
  const int32_t place = running_[number].place;
  const int32_t last = heap_.back();
  heap_.pop_back();
  running_[number].place = -1;
  if (last == number) return;
  Put(place, last);
  Up(place);
  Down(running_[last].place);
}

void FlowClock::Up(int32_t place) {
  const int32_t number = heap_[place];
  while (place > 0 && Before(number, heap_[(place - 1) / 2])) {
    Put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  Put(place, number);
}

void FlowClock::Down(int32_t place) {
  const int32_t number = heap_[place];
  const int32_t size = static_cast<int32_t>(heap_.size());
  for (int32_t child = 2 * place + 1; child < size; child = 2 * place + 1) {
    if (child + 1 < size && Before(heap_[child + 1], heap_[child])) ++child;
    if (!Before(heap_[child], number)) break;
    Put(place, heap_[child]);
    place = child;
  }
  Put(place, number);
}

}  // namespace weft::sim
