// Figures and tables of the reports for people: of a simulation, and of several side by side.
#ifndef WEFT_SIMULATOR_REPORT_FIGURE_TEXT_H_
#define WEFT_SIMULATOR_REPORT_FIGURE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace weft::sim {

// As many digits after the point in every row of a column: "0", "12.34 us", "1.200 ms", "3.000 s".
std::string Seconds(double seconds);
// "512 B", "1.5 KiB", "12.34 GiB".
std::string Bytes(int64_t bytes);
// "12.3 %" of 0.123.
std::string Percent(double ratio);

// One line per row, columns as wide as their widest cell: the first to the left, the others to the right. A row may be
// shorter than others.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_REPORT_FIGURE_TEXT_H_
