// The text form of a SimulationReport. The first line names the runtime that the prediction is for.
#ifndef WEFT_SIMULATOR_REPORT_REPORT_TEXT_H_
#define WEFT_SIMULATOR_REPORT_REPORT_TEXT_H_

#include <string>

#include "proto/report.pb.h"

namespace weft::sim {

// `verbose` adds what each rank waited for, and for how long.
std::string ReportToText(const SimulationReport& report, bool verbose = false);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_REPORT_REPORT_TEXT_H_
