// Checks that a failure that a test injects can happen. If it cannot, the run would look as if it had survived the
// failure.
#ifndef WEFT_EXECUTOR_FAULTS_INJECTED_FAILURE_H_
#define WEFT_EXECUTOR_FAULTS_INJECTED_FAILURE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "executor/interpreter/interpreter.h"
#include "proto/program.pb.h"

namespace weft::exec {

// InvalidArgument, naming what is allowed, unless the rank has the action and the failure's repetition is one of the
// run's `repetitions`. For a flipped bit: unless replicas are compared at its step or later. They are compared every
// `check_replicas` steps (0 = never) up to `last_step`, which counts the steps of earlier runs too.
absl::Status CheckInjectedFailure(const Program& program, const InjectedFailure& failure, int64_t repetitions,
                                  int64_t last_step, int64_t check_replicas);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_FAULTS_INJECTED_FAILURE_H_
