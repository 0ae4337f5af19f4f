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

// `programs` must not be empty, and all must be costed on the same cluster. The report has a row for each source of
// time that appears in some program, in the order of docs/simulator.md.
ProgramComparisonReport ComparePrograms(std::vector<SimulatedProgram> programs);

// Returns the comparison as text, with short names of programs (short_names.h). Its tables show figures by program; the
// time of a step by source, with differences from the first program; bytes sent by purpose; and memory by class.
std::string ProgramComparisonText(const ProgramComparisonReport& report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_PROGRAMS_H_
