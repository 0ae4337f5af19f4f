// Adds up, while the engine runs, how a rank spends its time and how much of its memory is live.
#ifndef WEFT_SIMULATOR_ENGINE_RANK_METER_H_
#define WEFT_SIMULATOR_ENGINE_RANK_METER_H_

#include <algorithm>
#include <cstdint>

#include "simulator/engine/engine.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// The times `now` of successive calls must not decrease.
class RankMeter {
 public:
  RankMeter(const ClassSizes& persistent, RankResult* result) : result_(result), live_by_class_(persistent) {
    for (const int64_t bytes : persistent) live_ += bytes;
  }

  // A compute step starts and takes `duration`; without collectives beside it, it would take `unloaded`. It was ready
  // at `ready` and waited for `reason` before that.
  void StartCompute(int64_t now, int64_t ready, IdleReason reason, int64_t duration, int64_t unloaded) {
    if (now > compute_end_) {
      const int64_t slot = now - std::max(ready, compute_end_);
      AddIdle(IdleReason::kComputeSlot, slot);
      AddIdle(reason, now - compute_end_ - slot);
    }
    AddExposed(now);
    computing_ = true;
    result_->busy.ps += duration;
    result_->slowed.ps += duration - unloaded;
  }

  // The running step takes `longer` more time than stated at its start; negative = less time.
  void Prolong(int64_t longer) {
    result_->busy.ps += longer;
    result_->slowed.ps += longer;
  }

  void EndCompute(int64_t now) {
    AddExposed(now);
    computing_ = false;
    compute_end_ = now;
  }

  // A transfer or collective starts (+1) or is finished (-1).
  void ChangeCommunication(int64_t now, int change) {
    AddExposed(now);
    communicating_ += change;
  }

  // A forward begins (+1) or a backward is over (-1). Changes of one instant count together.
  void ChangeForwards(int64_t now, int change) {
    if (now != forwards_time_) {
      NoteForwards();
      forwards_time_ = now;
    }
    forwards_ += change;
  }

  // A buffer becomes live (bytes > 0) or dies (bytes < 0). Changes of one instant count together: the peak is taken
  // when time moves on.
  void ChangeLive(int64_t now, BufferClass buffer_class, int64_t bytes) {
    if (now != live_time_) {
      NotePeak();
      live_time_ = now;
    }
    live_ += bytes;
    live_by_class_[buffer_class] += bytes;
  }

  // Adds the compute, idle and exposed times of a stretch, during which the meter saw the compute stream as busy all
  // the time.
  void AddStretch(const RankResult& stretch) {
    result_->busy.ps += stretch.busy.ps;
    result_->slowed.ps += stretch.slowed.ps;
    result_->exposed_communication.ps += stretch.exposed_communication.ps;
    for (int reason = 0; reason < kIdleReasons; ++reason) result_->idle[reason].ps += stretch.idle[reason].ps;
  }

  // The run ends. `complete` is false if it was stopped half way.
  void Finish(int64_t now, bool complete) {
    AddExposed(now);
    if (complete) AddIdle(IdleReason::kEndOfRun, now - compute_end_);
    NotePeak();
    NoteForwards();
  }

 private:
  void AddIdle(IdleReason reason, int64_t duration) { result_->idle[static_cast<int>(reason)].ps += duration; }

  void AddExposed(int64_t now) {
    if (communicating_ > 0 && !computing_) result_->exposed_communication.ps += now - exposed_until_;
    exposed_until_ = now;
  }

  void NoteForwards() { result_->peak_forwards = std::max(result_->peak_forwards, forwards_); }

  void NotePeak() {
    if (live_ <= result_->live_peak) return;
    result_->live_peak = live_;
    result_->live_at_peak = live_by_class_;
  }

  RankResult* result_;
  bool computing_ = false;
  int communicating_ = 0;
  int64_t forwards_ = 0;
  int64_t forwards_time_ = 0;
  int64_t compute_end_ = 0;
  int64_t exposed_until_ = 0;
  int64_t live_time_ = 0;
  int64_t live_ = 0;
  ClassSizes live_by_class_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_RANK_METER_H_
