// Draws in characters which row is busy when.
#ifndef WEFT_CLI_COMMON_TIMELINE_H_
#define WEFT_CLI_COMMON_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Work of a row from `start` to `end` > start. Work of no duration cannot be drawn.
struct Bar {
  int64_t start = 0;
  int64_t end = 0;
  // 'f' forward, 'B' backward, 'I' and 'W' the halves of a backward, 'p' and 'P' forward and backward of an overlapped
  // pair; any other letter for other work.
  char letter = 'f';
  // Drawn after the letter; -1 = none.
  int64_t number = -1;
  // Drawn after the number if there is space.
  std::string suffix = {};
};

struct TimelineRow {
  std::string name;
  // Sorted by time, without overlap.
  std::vector<Bar> bars;
};

struct Timeline {
  // If `exact`, `text` has one cell ("f3", "B3") for each step of the largest time step that divides all bars' starts
  // and ends. If such cells do not fit the width, `text` has one letter per column: the state in the middle of the
  // column's time. `column` is the time that one cell or column stands for.
  bool exact = true;
  int64_t column = 1;
  std::string text;
};

// DrawTimeline draws at most this many rows: further rows tell the reader nothing new.
inline constexpr size_t kTimelineRows = 64;

// The size of the whole timeline, if DrawTimeline gets only some of its rows.
struct TimelineWhole {
  // The number of all rows, and the time when the last of all bars ends. DrawTimeline raises both to cover the rows it
  // gets.
  size_t rows = 0;
  int64_t end = 0;
};

// Draws one line per row, with the row's name in front; time starts at 0. Draws at most kTimelineRows rows; if there
// are more, a last line says so.
Timeline DrawTimeline(const std::vector<TimelineRow>& rows, int width, bool color, TimelineWhole whole = {});

}  // namespace weft

#endif  // WEFT_CLI_COMMON_TIMELINE_H_
