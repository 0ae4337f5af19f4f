#include "planner/live_bytes.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace weft::planner {
namespace {

bool IsOfMicrobatch(ActionKind kind) {
  return kind == FORWARD || kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT ||
         kind == FORWARD_BACKWARD;
}

class LiveBytes {
 public:
  explicit LiveBytes(const Template& t) : template_(t), is_live_(t.buffers_size(), false) {
    for (int b = 0; b < t.buffers_size(); ++b) {
      if (t.buffers(b).persistent()) Begin(b);
    }
  }

  FullestMoments Run() {
    FullestMoments moments;
    moments.microbatches = moments.end = live_;
    double most_before = sum_, most_after = sum_;
    int last = template_.body_size();
    while (last > 0 && !IsOfMicrobatch(template_.body(last - 1).kind())) --last;
    for (int i = 0; i < template_.body_size(); ++i) {
      const Action& action = template_.body(i);
      for (const int32_t b : action.operands()) Begin(b);
      for (const int32_t b : action.destinations()) Begin(b);
      double& most = i < last ? most_before : most_after;
      if (sum_ > most) {
        most = sum_;
        (i < last ? moments.microbatches : moments.end) = live_;
      }
      for (const int32_t b : action.releases()) End(b);
    }
    return moments;
  }

 private:
  bool Counts(int b) const { return template_.buffers(b).place() == DEVICE; }
  void Add(int b, double sign) {
    const double bytes = sign * static_cast<double>(template_.buffers(b).bytes());
    live_[template_.buffers(b).class_()] += bytes;
    sum_ += bytes;
  }
  void Begin(int b) {
    if (is_live_[b] || !Counts(b)) return;
    is_live_[b] = true;
    Add(b, 1);
  }
  void End(int b) {
    if (!is_live_[b] || !Counts(b)) return;
    is_live_[b] = false;
    Add(b, -1);
  }

  const Template& template_;
  std::vector<bool> is_live_;
  BytesByClass live_ = {};
  double sum_ = 0;
};

}  // namespace

FullestMoments FullestMomentsOf(const Template& t) { return LiveBytes(t).Run(); }

int64_t FullestMoment(const Template& t) {
  const FullestMoments moments = FullestMomentsOf(t);
  const auto sum = [](const BytesByClass& classes) { return std::accumulate(classes.begin(), classes.end(), 0.0); };
  return static_cast<int64_t>(std::max(sum(moments.microbatches), sum(moments.end)));
}

}  // namespace weft::planner
