#include "compiler/segments/step_order.h"

#include <algorithm>

namespace weft {

namespace {

bool Conflict(const OrderedStep& a, const OrderedStep& b) {
  for (const StepAccess& x : a.accesses) {
    for (const StepAccess& y : b.accesses) {
      if (x.space == y.space && (x.writes || y.writes) && x.begin < y.end && y.begin < x.end) return true;
    }
  }
  return false;
}

// The steps that are known to be finished when a step starts: compute steps up to `compute`, and collectives by number.
struct Known {
  int compute = -1;
  std::vector<bool> collectives;

  void Join(const Known& other) {
    compute = std::max(compute, other.compute);
    for (size_t i = 0; i < other.collectives.size(); ++i) {
      if (other.collectives[i]) collectives[i] = true;
    }
  }
};

}  // namespace

StepOrder::StepOrder(const std::vector<OrderedStep>& steps) {
  const int count = static_cast<int>(steps.size());
  deps_.resize(count);
  waited_for_by_.assign(count, count);
  // The collective steps in list order, and the number of each step among them.
  std::vector<int> collectives;
  std::vector<int> number(count, -1);
  int streams = 1;
  for (int i = 0; i < count; ++i) {
    streams = std::max(streams, steps[i].stream + 1);
    if (steps[i].stream == 0) continue;
    number[i] = static_cast<int>(collectives.size());
    collectives.push_back(i);
  }
  // The steps that are known to be finished after the last step of each stream so far.
  std::vector<Known> last(streams);
  for (Known& known : last) known.collectives.assign(collectives.size(), false);
  // The steps that are known to be finished after each collective.
  std::vector<Known> known_of(collectives.size());
  int last_compute = -1;
  // Collectives that no compute step has waited for.
  std::vector<int> outstanding;
  for (int i = 0; i < count; ++i) {
    const bool compute = steps[i].stream == 0;
    Known known = last[steps[i].stream];
    // Handles later collectives first, because waiting for them may imply waiting for earlier ones.
    std::vector<int> wanted;
    for (auto it = outstanding.rbegin(); it != outstanding.rend(); ++it) {
      const bool blocks = steps[*it].blocking && *it > last_compute;
      if (blocks || Conflict(steps[i], steps[*it])) wanted.push_back(*it);
    }
    if (!compute && last_compute >= 0) {
      wanted.push_back(last_compute);
      std::sort(wanted.rbegin(), wanted.rend());
    }
    for (int on : wanted) {
      const bool on_compute = steps[on].stream == 0;
      if (on_compute ? known.compute >= on : known.collectives[number[on]]) continue;
      deps_[i].push_back(on);
      if (on_compute) {
        known.Join(last[0]);
        known.compute = std::max(known.compute, on);
      } else {
        known.Join(known_of[number[on]]);
        known.collectives[number[on]] = true;
      }
    }
    std::sort(deps_[i].begin(), deps_[i].end());
    if (compute) {
      std::erase_if(outstanding, [&](int collective) {
        if (!known.collectives[number[collective]]) return false;
        waited_for_by_[collective] = i;
        return true;
      });
      // A compute step is finished when it ends.
      known.compute = i;
      last_compute = i;
    } else {
      known_of[number[i]] = known;
      outstanding.push_back(i);
    }
    last[steps[i].stream] = std::move(known);
  }
}

}  // namespace weft
