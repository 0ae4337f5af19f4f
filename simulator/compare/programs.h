// Programs side by side: from what was simulated of each, which is faster, by how much, and where the time goes.
#ifndef WEFT_SIMULATOR_COMPARE_PROGRAMS_H_
#define WEFT_SIMULATOR_COMPARE_PROGRAMS_H_

#include <string>
#include <vector>

#include "proto/program_comparison.pb.h"
#include "proto/report.pb.h"

namespace weft::sim {

// What a program is called, in UTF-8, and what was simulated of it.
struct SimulatedProgram {
  std::string file;
  SimulationReport report;
};

// `programs`: at least one, all costed on one cluster. Rows of sources are those that some program spends time on, in
// the order of docs/simulator.md.
ProgramComparisonReport ComparePrograms(std::vector<SimulatedProgram> programs);

// For people, with programs by their short names (short_names.h): figures by program; what a step is spent on, and how
// that differs from the first program's; what is sent and what memory holds, by purpose and class.
std::string ProgramComparisonText(const ProgramComparisonReport& report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_PROGRAMS_H_
