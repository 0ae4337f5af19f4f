#include "cli/common/file_clash.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/common/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string Made(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << "content";
  return path;
}

TEST(FileClash, RefusesToOverwriteInputs) {
  const std::string program = Made("p.weft");
  const std::string link = testing::TempDir() + "/link.weft";
  fs::remove(link);
  fs::create_symlink(program, link);
  const std::string hard = testing::TempDir() + "/hard.weft";
  fs::remove(hard);
  fs::create_hard_link(program, hard);
  for (const std::string& name : {program, link, hard, testing::TempDir() + "/./p.weft"}) {
    const absl::Status status = CheckFileClashes({{"the program", program}}, {{"--trace", name}});
    EXPECT_TRUE(IsUsageError(status)) << name << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("would overwrite the program"));
  }
  EXPECT_EQ(CheckFileClashes({{"the program", program}}, {{"--trace", testing::TempDir() + "/t.json"}}),
            absl::OkStatus());
}

TEST(FileClash, TwoOutputsAreTwoFiles) {
  const std::string fresh = testing::TempDir() + "/fresh.json", same = testing::TempDir() + "/./fresh.json";
  const absl::Status status = CheckFileClashes({}, {{"--trace", fresh}, {"--report", same}});
  EXPECT_TRUE(IsUsageError(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("are the same file"));
  EXPECT_EQ(CheckFileClashes({}, {{"--trace", fresh}, {"--report", fresh + "2"}}), absl::OkStatus());
  // Writing to a device loses nothing, and a flag that is not given names no file.
  EXPECT_EQ(CheckFileClashes({{"--data", "/dev/null"}}, {{"--trace", "/dev/null"}, {"--report", "/dev/null"}}),
            absl::OkStatus());
  EXPECT_EQ(CheckFileClashes({{"--data", ""}}, {{"--trace", ""}, {"--report", ""}}), absl::OkStatus());
}

TEST(FileClash, ADashIsNoFile) {
  const absl::Status status = CheckFileClashes({}, {{"--report", ""}, {"--trace", "-"}});
  EXPECT_TRUE(IsUsageError(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--trace -: this output cannot go to standard output; give a file"));
  EXPECT_EQ(CheckFileClashes({}, {{"--trace", "./-"}}), absl::OkStatus());
}

}  // namespace
}  // namespace weft
