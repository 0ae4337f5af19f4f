// Figures and tables of the text reports, for one simulation and for several side by side.
#ifndef WEFT_SIMULATOR_REPORT_FIGURE_TEXT_H_
#define WEFT_SIMULATOR_REPORT_FIGURE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace weft::sim {

// Formats a time so that every row of a column has the same number of decimals: "0", "12.34 us", "1.200 ms", "3.000 s".
std::string Seconds(double seconds);
// Formats a size: "512 B", "1.5 KiB", "12.34 GiB".
std::string Bytes(int64_t bytes);
// Formats a ratio: 0.123 gives "12.3 %".
std::string Percent(double ratio);

// Formats one line per row, with columns as wide as their widest cell. The first column is left-aligned, the others
// right-aligned. A row may be shorter than others.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_REPORT_FIGURE_TEXT_H_
