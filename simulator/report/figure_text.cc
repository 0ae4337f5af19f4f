#include "simulator/report/figure_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weft::sim {

std::string Seconds(double seconds) {
  if (seconds == 0) return "0";
  if (std::abs(seconds) < 1e-3) return absl::StrFormat("%.2f us", seconds * 1e6);
  if (std::abs(seconds) < 1) return absl::StrFormat("%.3f ms", seconds * 1e3);
  return absl::StrFormat("%.3f s", seconds);
}

std::string Bytes(int64_t bytes) {
  const double size = static_cast<double>(bytes);
  if (bytes < 1 << 10) return absl::StrCat(bytes, " B");
  if (bytes < 1 << 20) return absl::StrFormat("%.1f KiB", size / (1 << 10));
  if (bytes < 1 << 30) return absl::StrFormat("%.1f MiB", size / (1 << 20));
  return absl::StrFormat("%.2f GiB", size / (1 << 30));
}

std::string Percent(double ratio) { return absl::StrFormat("%.1f %%", 100 * ratio); }

namespace {

// Returns the number of characters of valid UTF-8. Each character takes one column.
size_t Columns(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

}  // namespace

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Columns(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Columns(row[i]), ' ');
      absl::StrAppend(&text, "  ", i == 0 ? row[i] + padding : padding + row[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace weft::sim
