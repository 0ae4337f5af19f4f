// Compares programs by their simulations: which is faster, by how much, and where the time goes.
#ifndef WEFT_SIMULATOR_COMPARE_PROGRAMS_H_
#define WEFT_SIMULATOR_COMPARE_PROGRAMS_H_

#include <string>
#include <vector>

#include "proto/program_comparison.pb.h"
#include "proto/report.pb.h"

namespace weft::sim {

// A program's name, in UTF-8, and the report of its simulation.
struct SimulatedProgram {
  std::string file;
  SimulationReport report;
};

// `programs` has at least one; all must be costed on one cluster. The report has a row for each source that some
// program spends time on, in the order of docs/simulator.md.
ProgramComparisonReport ComparePrograms(std::vector<SimulatedProgram> programs);

// Returns the comparison as text, with short names of programs (short_names.h): figures by program; what a step is
// spent on and how that differs from the first program; what is sent by purpose; what memory holds by class.
std::string ProgramComparisonText(const ProgramComparisonReport& report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_PROGRAMS_H_
