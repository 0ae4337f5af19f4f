#include "executor/platform/shared_library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::exec {
namespace {

namespace fs = std::filesystem;

using ::testing::TempDir;

constexpr char kExample[] = "executor/platform/libweft_example.so";

// A fresh folder for one test.
std::string Folder(const std::string& name) {
  const fs::path folder = fs::path(TempDir()) / "shared_library" / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder.string();
}

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(SharedLibrary, FindsFunctionsAndVariables) {
  const std::string folder = Folder("found");
  fs::copy_file(kExample, folder + "/libexample.so.7");
  const auto library = SharedLibrary::OpenFrom("an example", {"libexample.so.8", "libexample.so.7"},
                                               SharedLibrary::Scope::kLocal, {}, {"/nowhere", folder});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->path(), folder + "/libexample.so.7");
  int (*add)(int, int) = nullptr;
  ASSERT_TRUE(library->Load("weft_example_add", &add).ok());
  EXPECT_EQ(add(2, 3), 5);
  const int* version = nullptr;
  ASSERT_TRUE(library->Load("weft_example_version", &version).ok());
  EXPECT_EQ(*version, 41);
  EXPECT_EQ(library->Find("weft_example_none"), nullptr);
  const absl::Status missing = library->Load("weft_example_none", &add);
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(missing.message(),
            "an example in " + folder + "/libexample.so.7 has no weft_example_none: it has another version");
}

TEST(SharedLibrary, TheFoldersOfTheUserComeFirst) {
  const std::string first = Folder("first"), last = Folder("last");
  fs::copy_file(kExample, first + "/libfirst.so");
  fs::copy_file(kExample, last + "/libfirst.so");
  const auto library =
      SharedLibrary::OpenFrom("an example", {"libfirst.so"}, SharedLibrary::Scope::kLocal, {first}, {last});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->path(), first + "/libfirst.so");
}

TEST(SharedLibrary, TheLoaderKnowsTheSystemsOwn) {
  const auto library = SharedLibrary::OpenFrom("the C library", {"libc.so.6"}, SharedLibrary::Scope::kLocal, {}, {});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_NE(library->Find("getpid"), nullptr);
}

TEST(SharedLibrary, SaysWhereItLooked) {
  const auto library = SharedLibrary::OpenFrom("nothing", {"libweft_none.so.1", "libweft_none.so"},
                                               SharedLibrary::Scope::kLocal, {"/a"}, {"/b", "/c"});
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(library.status().message(),
            "nothing (libweft_none.so.1 or libweft_none.so) was not found in /a (--lib-path), the loader's path, /b, "
            "/c; name its folder with --lib-path");
}

TEST(SharedLibrary, AFileThatIsNoLibraryIsNamed) {
  const std::string broken = Folder("broken"), good = Folder("good");
  Write(broken + "/libbroken.so", "text\n");
  fs::copy_file(kExample, good + "/libbroken.so");
  // A broken file in a folder that the user named is an error. In other folders the search continues, and reports the
  // broken file only if it finds no other.
  const auto asked =
      SharedLibrary::OpenFrom("an example", {"libbroken.so"}, SharedLibrary::Scope::kLocal, {broken}, {good});
  EXPECT_EQ(asked.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(asked.status().message().find("cannot load an example (libbroken.so) from --lib-path: " + broken +
                                          "/libbroken.so: file too short"),
            std::string::npos)
      << asked.status();
  const auto nothing =
      SharedLibrary::OpenFrom("an example", {"libbroken.so"}, SharedLibrary::Scope::kLocal, {}, {broken});
  EXPECT_EQ(nothing.status().code(), absl::StatusCode::kFailedPrecondition) << nothing.status();
  const auto later =
      SharedLibrary::OpenFrom("an example", {"libbroken.so"}, SharedLibrary::Scope::kLocal, {}, {broken, good});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->path(), good + "/libbroken.so");
}

TEST(SharedLibrary, OpenAsksTheFoldersOfLibPath) {
  const std::string folder = Folder("lib_path");
  fs::copy_file(kExample, folder + "/libgiven.so");
  EXPECT_FALSE(SharedLibrary::Open("an example", {"libgiven.so"}).ok());
  SetLibraryPath({folder});
  EXPECT_EQ(LibraryPath(), std::vector<std::string>{folder});
  EXPECT_TRUE(SharedLibrary::Open("an example", {"libgiven.so"}).ok());
  SetLibraryPath({});
}

TEST(LibraryFolders, SearchesToolkitAndPythonEnvironments) {
  const std::string root = Folder("folders");
  const auto make = [&](const std::string& folder) {
    fs::create_directories(root + folder);
    return root + folder;
  };
  const std::vector<std::string> expected = {
      make("/cuda/lib64"),
      make("/venv/lib/python3.11/site-packages/nvidia/cu13/lib"),
      make("/venv/lib/python3.11/site-packages/nvidia/cudnn/lib"),
      make("/conda/lib/python3.12/site-packages/nvidia/nccl/lib"),
      make("/python/lib/python3/dist-packages/nvidia/nccl/lib"),
      make("/real/lib/python3.9/site-packages/nvidia/nccl/lib"),
      make("/home/.local/lib/python3.11/site-packages/nvidia/nccl/lib"),
      make("/home/.cache/weft_cuda/nvidia/nccl/lib"),
  };
  make("/venv/lib/python2.7/site-packages/nvidia/nccl/lib");
  make("/venv/lib/python3.11/site-packages/nvidia/empty");
  make("/python/bin");
  make("/real/bin");
  Write(root + "/real/bin/python3.9", "#!/bin/sh\n");
  fs::permissions(root + "/real/bin/python3.9", fs::perms::owner_all);
  fs::create_symlink(root + "/real/bin/python3.9", root + "/python/bin/python3");
  LibraryEnvironment environment;
  environment.cuda_home = root + "/cuda";
  environment.virtual_env = root + "/venv";
  environment.conda_prefix = root + "/conda";
  environment.path = "/nowhere:" + root + "/python/bin";
  environment.home = root + "/home";
  EXPECT_EQ(LibraryFolders(environment), expected);
  // The virtual environment is usually first in PATH as well; no folder is listed twice.
  environment.path = root + "/venv/bin:" + environment.path;
  make("/venv/bin");
  fs::create_symlink(root + "/real/bin/python3.9", root + "/venv/bin/python3");
  std::vector<std::string> fewer = expected;
  fewer.erase(fewer.begin() + 4);
  EXPECT_EQ(LibraryFolders(environment), fewer);
  environment.cuda_libraries = root + "/conda/lib/python3.12/site-packages";
  fewer.pop_back();
  EXPECT_EQ(LibraryFolders(environment), fewer);
}

TEST(LibraryFolders, ReadsTheProcessEnvironment) {
  ASSERT_EQ(setenv("CUDA_HOME", "/toolkit", 1), 0);
  ASSERT_EQ(unsetenv("VIRTUAL_ENV"), 0);
  const LibraryEnvironment environment = LibraryEnvironment::FromProcess();
  EXPECT_EQ(environment.cuda_home, "/toolkit");
  EXPECT_EQ(environment.virtual_env, "");
}

}  // namespace
}  // namespace weft::exec
