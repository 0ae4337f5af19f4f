// An AccuracyReport for people: plain text, or Markdown for results.md.
#ifndef WEFT_TESTS_ACCURACY_ACCURACY_TEXT_H_
#define WEFT_TESTS_ACCURACY_ACCURACY_TEXT_H_

#include <string>

#include "proto/report.pb.h"

namespace weft {

std::string AccuracyToText(const AccuracyReport& report);

// `title` is that of the section; `command` what made it.
std::string AccuracyToMarkdown(const AccuracyReport& report, const std::string& title, const std::string& command);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_ACCURACY_TEXT_H_
