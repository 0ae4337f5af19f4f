// Drawings of who is busy when, in characters.
#ifndef WEFT_CLI_COMMON_TIMELINE_H_
#define WEFT_CLI_COMMON_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Something that a row does from `start` to `end` > start; shorter ones cannot be seen.
struct Bar {
  int64_t start = 0;
  int64_t end = 0;
  // 'f' forward, 'B' backward, 'I' and 'W' its halves, 'p' and 'P' forward and backward of an overlapped pair; anything
  // else for other work.
  char letter = 'f';
  // -1 for none.
  int64_t number = -1;
  // Behind the number, where there is room for that.
  std::string suffix = {};
};

struct TimelineRow {
  std::string name;
  // Ascending, without overlap.
  std::vector<Bar> bars;
};

struct Timeline {
  // The first character, and how many of them, drawn: exactly one column per largest common step of time ("f3 B3 B3"),
  // or, where that is too wide, one letter per column that shows the state in the middle of its time.
  bool exact = true;
  int64_t column = 1;
  std::string text;
};

// Rows beyond this say nothing that the first do not.
inline constexpr size_t kTimelineRows = 64;

// What there is besides the rows that DrawTimeline is given.
struct TimelineWhole {
  // How many rows, and when the last of all bars ends; no less than the given ones have.
  size_t rows = 0;
  int64_t end = 0;
};

// One line per row, the names in front; time starts at 0. Rows beyond kTimelineRows are left out, with a line that says
// so.
Timeline DrawTimeline(const std::vector<TimelineRow>& rows, int width, bool colour, TimelineWhole whole = {});

}  // namespace weft

#endif  // WEFT_CLI_COMMON_TIMELINE_H_
