// Parses messages that tests write as text.
#ifndef WEFT_TESTS_PARSE_TEXT_H_
#define WEFT_TESTS_PARSE_TEXT_H_

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {

// Returns the message; fails the test if the text is not a T.
template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

}  // namespace weft

#endif  // WEFT_TESTS_PARSE_TEXT_H_
