// Makes the program of a schedule that never drains the pipeline. It is made from the segments, without the rank level
// (inputs/asynchronous.h says why).
#ifndef WEFT_COMPILER_EXPORT_EXPORT_ASYNCHRONOUS_H_
#define WEFT_COMPILER_EXPORT_EXPORT_ASYNCHRONOUS_H_

#include "absl/status/statusor.h"
#include "compiler/inputs/asynchronous.h"
#include "compiler/segments/segment_set.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Makes the fields of the program that follow from the schedule. As with ExportProgram (export_program.h), the caller
// fills in the rest.
absl::StatusOr<Program> ExportAsynchronous(const AsynchronousPlan& asynchronous, const SegmentSet& segments,
                                           const Plan& plan);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_EXPORT_ASYNCHRONOUS_H_
