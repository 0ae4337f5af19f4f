// Draws interruptions of a job, one after another, and finds how much of its time the job trains. It shares no formula
// with fault_model.h. Many drawn runs also show how much runs differ.
#ifndef WEFT_SIMULATOR_GOODPUT_DRAWN_RUN_H_
#define WEFT_SIMULATOR_GOODPUT_DRAWN_RUN_H_

#include "simulator/engine/draw.h"
#include "simulator/goodput/fault_model.h"

namespace weft::sim {

// Draws the interruptions of a run of `seconds` seconds and returns how its time is spent. Work and stops after the
// last checkpoint count as useful and saving if the run ends before the next interruption.
TimeShares DrawRun(const FaultModel& model, double interval_seconds, double seconds, Draw draw);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_GOODPUT_DRAWN_RUN_H_
