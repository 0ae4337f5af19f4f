#include "verifier/segment_order.h"

#include <algorithm>

namespace weft::verify {

bool MakeParts(const Program& program, const Segment& segment, SegmentUse* use, std::vector<int>* part_of_step) {
  const int n = segment.steps_size();
  absl::flat_hash_map<std::string, int> communicators;
  std::vector<int> stream(n);
  for (int i = 0; i < n; ++i) {
    const Step& step = segment.steps(i);
    stream[i] = step.stream();
    if (step.stream() != COLLECTIVE) continue;
    const std::string key = CommunicatorKey(program, step.collective().group(), step.collective().purpose());
    const auto [it, fresh] = communicators.emplace(key, static_cast<int>(use->communicators.size()));
    if (fresh) {
      use->communicators.push_back(key);
      use->representative.push_back(i);
    }
    stream[i] = kStepStreams + it->second;
  }
  // Marks steps that a step of another stream waits for. Such a step is the last of its part.
  std::vector<bool> awaited(n, false);
  for (int i = 0; i < n; ++i) {
    for (int d : segment.steps(i).deps()) awaited[d] = awaited[d] || stream[d] != stream[i];
  }
  part_of_step->assign(n, -1);
  int open[kStepStreams] = {-1, -1, -1};  // The step that the stream's next step may join.
  for (int i = 0; i < n; ++i) {
    const Step& step = segment.steps(i);
    const bool plain = stream[i] < kStepStreams && !step.detached();
    const bool waits =
        std::any_of(step.deps().begin(), step.deps().end(), [&](int d) { return stream[d] != stream[i]; });
    if (plain && !waits && open[stream[i]] >= 0) {
      (*part_of_step)[i] = (*part_of_step)[open[stream[i]]];
    } else {
      if (static_cast<int>(use->parts.size()) == Limits::kParts) return false;
      const int p = static_cast<int>(use->parts.size());
      (*part_of_step)[i] = p;
      Part part;
      part.stream = stream[i];
      part.detached = step.detached();
      part.first_step = i;
      for (int d : step.deps()) {
        // The stream itself orders its steps, unless it is a communicator.
        if (stream[d] == stream[i] && stream[i] < kStepStreams) continue;
        part.deps.push_back((*part_of_step)[d]);
      }
      std::sort(part.deps.begin(), part.deps.end());
      part.deps.erase(std::unique(part.deps.begin(), part.deps.end()), part.deps.end());
      for (int d : part.deps) use->parts[d].waiters.push_back(p);
      use->has_detached = use->has_detached || part.detached;
      use->parts.push_back(std::move(part));
    }
    if (stream[i] < kStepStreams) open[stream[i]] = plain && !awaited[i] ? i : -1;
  }
  return static_cast<int64_t>(use->parts.size()) * (kStepStreams + static_cast<int64_t>(use->communicators.size())) <=
         Limits::kClocks;
}

SegmentOrder::SegmentOrder(const SegmentUse& use)
    : parts_(use.parts), streams_(kStepStreams + static_cast<int>(use.communicators.size())) {
  const int n = static_cast<int>(parts_.size());
  before_.assign(int64_t{n} * streams_, -1);
  std::vector<int> last(streams_, -1);
  for (int p = 0; p < n; ++p) {
    int32_t* to = &before_[int64_t{p} * streams_];
    const auto after = [&](int q) {
      const int32_t* from = &before_[int64_t{q} * streams_];
      for (int s = 0; s < streams_; ++s) to[s] = std::max(to[s], from[s]);
      to[parts_[q].stream] = std::max(to[parts_[q].stream], q);
    };
    const int stream = parts_[p].stream;
    if (last[stream] >= 0) after(last[stream]);
    for (int q : parts_[p].deps) after(q);
    last[stream] = p;
  }
}

bool SegmentOrder::Finished(int p, int q) const {
  if (p >= q) return false;
  if (!IsCollective(parts_[p])) return Ended(p, q);
  // A collective may end before it is finished. So q must come after a part that waited for its finish.
  return std::any_of(parts_[p].waiters.begin(), parts_[p].waiters.end(),
                     [&](int w) { return w == q || (w < q && Ended(w, q)); });
}

std::vector<int> SegmentOrder::First(const std::vector<int>& parts) const {
  std::vector<int> first;
  for (int q : parts) {
    if (std::none_of(first.begin(), first.end(), [&](int p) { return Ended(p, q); })) first.push_back(q);
  }
  return first;
}

std::vector<int> SegmentOrder::Last(const std::vector<int>& parts) const {
  std::vector<int> last;
  for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
    if (std::none_of(last.begin(), last.end(), [&](int q) { return Finished(*it, q); })) last.push_back(*it);
  }
  std::reverse(last.begin(), last.end());
  return last;
}

}  // namespace weft::verify
