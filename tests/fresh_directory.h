// Empty directories for tests.
#ifndef WEFT_TESTS_FRESH_DIRECTORY_H_
#define WEFT_TESTS_FRESH_DIRECTORY_H_

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace weft {

// Returns the path of an empty directory of this name. Removes what an earlier test has left there.
inline std::string FreshDirectory(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

}  // namespace weft

#endif  // WEFT_TESTS_FRESH_DIRECTORY_H_
