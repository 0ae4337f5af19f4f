#include "cli/common/timeline.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace weft {
namespace {

constexpr absl::string_view kNoColor = "\033[0m";

absl::string_view ColorOf(char letter) {
  switch (letter) {
    case 'f':
      return "\033[34m";
    case 'B':
      return "\033[32m";
    case 'I':
      return "\033[36m";
    case 'W':
      return "\033[35m";
    case 'p':
      return "\033[94m";
    case 'P':
      return "\033[92m";
    case '.':
      return "\033[2m";
    default:
      return "\033[33m";
  }
}

// A line of text that changes color only where the letter changes.
class Line {
 public:
  explicit Line(bool color) : color_(color) {}

  void Add(char letter, absl::string_view text) {
    if (color_ && letter != letter_) {
      absl::StrAppend(&text_, letter_ == 0 ? "" : kNoColor, ColorOf(letter));
      letter_ = letter;
    }
    absl::StrAppend(&text_, text);
  }

  std::string Take() {
    if (color_) return letter_ == 0 ? text_ : absl::StrCat(text_, kNoColor);
    text_.erase(text_.find_last_not_of(' ') + 1);
    return text_;
  }

 private:
  bool color_;
  char letter_ = 0;
  std::string text_;
};

}  // namespace

Timeline DrawTimeline(const std::vector<TimelineRow>& rows, int width, bool color, TimelineWhole whole) {
  whole.rows = std::max(whole.rows, rows.size());
  Timeline timeline;
  // The largest step that divides all starts and ends.
  int64_t step = whole.end, end = whole.end, most = 0;
  size_t margin = 0, suffix = 0;
  for (const TimelineRow& row : rows) {
    margin = std::max(margin, row.name.size());
    for (const Bar& bar : row.bars) {
      step = std::gcd(step, std::gcd(bar.start, bar.end));
      end = std::max(end, bar.end);
      most = std::max(most, bar.number);
      suffix = std::max(suffix, bar.suffix.size());
    }
  }
  step = std::max<int64_t>(step, 1);
  const int64_t columns = std::max<int64_t>(width - static_cast<int64_t>(margin) - 3, 20);
  // A cell holds a letter, the number, the suffix and a space.
  const int64_t cell = static_cast<int64_t>(absl::StrCat(most).size() + suffix) + 2;
  timeline.exact = end / step <= columns / cell;
  if (!timeline.exact) step = (end - 1) / columns + 1;
  timeline.column = step;

  for (size_t i = 0; i < std::min(rows.size(), kTimelineRows); ++i) {
    const std::vector<Bar>& bars = rows[i].bars;
    Line line(color);
    size_t at = 0;
    for (int64_t begin = 0; begin < end; begin += step) {
      const int64_t middle = begin + step / 2;
      while (at < bars.size() && bars[at].end <= middle) ++at;
      const Bar* bar = at < bars.size() && bars[at].start <= middle ? &bars[at] : nullptr;
      const char letter = bar == nullptr ? '.' : bar->letter;
      std::string text(1, letter);
      if (timeline.exact) {
        absl::StrAppend(&text, bar == nullptr ? "." : bar->number < 0 ? "" : absl::StrCat(bar->number, bar->suffix));
        text.resize(cell, ' ');
      }
      line.Add(letter, text);
    }
    absl::StrAppendFormat(&timeline.text, "  %-*s ", static_cast<int>(margin), rows[i].name);
    absl::StrAppend(&timeline.text, line.Take(), "\n");
  }
  if (whole.rows > kTimelineRows) {
    absl::StrAppend(&timeline.text, "  (the first ", kTimelineRows, " of ", whole.rows, " ranks)\n");
  }
  return timeline;
}

}  // namespace weft
