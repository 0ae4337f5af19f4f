// Prints an AccuracyReport as plain text, or as Markdown for results.md.
#ifndef WEFT_TESTS_ACCURACY_ACCURACY_TEXT_H_
#define WEFT_TESTS_ACCURACY_ACCURACY_TEXT_H_

#include <string>

#include "proto/report.pb.h"

namespace weft {

std::string AccuracyToText(const AccuracyReport& report);

// `title` is the section's title, `command` the command that made the report.
std::string AccuracyToMarkdown(const AccuracyReport& report, const std::string& title, const std::string& command);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_ACCURACY_TEXT_H_
