// Random programs on the real executor: every program that the verifier accepts runs to its end, without deadlock and
// (in sanitizer builds) without a fault, and gives the same bits under every timing.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interface/backend.h"
#include "executor/interpreter/interpreter.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/random_program.h"
#include "verifier/verify.h"

namespace weft {
namespace {

class AnyTokens : public exec::DataSource {
 public:
  int64_t windows() const override { return 1000; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((sample + i) % 7);
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>((sample + i + 1) % 7);
    return absl::OkStatus();
  }
};

// True if the program is small enough to run many times.
bool Small(const Program& program) {
  if (MeshRanks(program.mesh()) > 32) return false;
  for (const Template& t : program.templates()) {
    if (t.device_arena_bytes() > (32 << 20) || t.host_arena_bytes() > (32 << 20)) return false;
  }
  return true;
}

absl::Status Execute(const Program& program, int slots, int64_t repetitions) {
  AnyTokens data;
  exec::RunOptions options;
  options.steps = repetitions;
  options.slots = slots;
  options.verify_completeness = false;
  options.timeout = std::chrono::seconds(30);
  options.trace_repetitions = 2;
  const absl::StatusOr<exec::RunResult> result = exec::RunInProcess(program, data, options);
  if (!result.ok()) return result.status();
  int64_t events = 0;
  for (const RankTrace& rank : result->trace->ranks()) events += rank.events_size();
  return events > 0 ? absl::OkStatus() : absl::InternalError("an empty trace");
}

// The bytes of all persistent buffers after a run, rank by rank; empty if the run failed.
std::string FinalBytes(const Program& program, int slots, int64_t repetitions) {
  const int ranks = static_cast<int>(MeshRanks(program.mesh()));
  const auto endpoints = *(*exec::FindTransport("inproc"))->open(ranks);
  std::vector<exec::Endpoint*> raw;
  for (const auto& endpoint : endpoints) raw.push_back(endpoint.get());
  exec::ComputeSlots turns(slots, raw);
  AnyTokens data;
  exec::InterpreterOptions options;
  options.data = &data;
  options.slots = &turns;
  options.timeout = std::chrono::seconds(30);
  options.check_finite = false;
  std::vector<std::unique_ptr<exec::Arena>> arenas;
  std::vector<std::unique_ptr<exec::Backend>> backends;
  std::vector<std::unique_ptr<exec::Interpreter>> interpreters;
  for (int rank = 0; rank < ranks; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    arenas.push_back(*exec::Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes()));
    backends.push_back(exec::MakeCpuBackend(1));
    interpreters.push_back(
        *exec::Interpreter::Create(program, raw[rank], backends.back().get(), arenas.back().get(), options));
  }
  std::vector<absl::Status> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      absl::Status status = interpreters[rank]->RunPrologue();
      if (status.ok()) status = interpreters[rank]->RunBody(0, repetitions).status();
      if (status.ok()) status = interpreters[rank]->RunEpilogue();
      if (!status.ok()) endpoints[rank]->Abort(status);
      results[rank] = status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!results[rank].ok()) return "";
    for (const Buffer& buffer : program.templates(TemplateOfRank(program, rank)).buffers()) {
      if (!buffer.persistent()) continue;
      bytes.append(reinterpret_cast<const char*>(arenas[rank]->Data(buffer)), buffer.bytes());
    }
  }
  return bytes;
}

// True if the run succeeded or failed in a way that is allowed for random programs: they compute on random numbers, so
// a loss may overflow, and a kernel may refuse dtypes.
bool Acceptable(const absl::Status& status) {
  return status.ok() || status.code() == absl::StatusCode::kOutOfRange ||
         status.code() == absl::StatusCode::kInvalidArgument;
}

TEST(RandomRunTest, VerifiedProgramsRun) {
  int ran = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    RandomProgramOptions options;
    options.data = seed % 2 == 0;
    options.events = 10 + static_cast<int>(seed % 40);
    const Program program = RandomProgram(seed, options);
    ASSERT_TRUE(VerifyProgram(program, {.completeness = false}).ok()) << "seed " << seed;
    for (int slots : {1, 64}) {
      const absl::Status status = Execute(program, slots, 3);
      EXPECT_TRUE(Acceptable(status)) << "seed " << seed << " slots " << slots << ": " << status;
      ran += status.ok();
    }
  }
  EXPECT_GT(ran, 60);
}

TEST(RandomRunTest, TimingDoesNotChangeABit) {
  int compared = 0;
  for (uint64_t seed = 101; seed <= 140; ++seed) {
    RandomProgramOptions options;
    options.data = seed % 2 == 0;
    options.events = 30;
    const Program program = RandomProgram(seed, options);
    const std::string expected = FinalBytes(program, 1, 4);
    for (int slots : {2, 64}) {
      EXPECT_TRUE(FinalBytes(program, slots, 4) == expected) << "seed " << seed << " slots " << slots;
    }
    compared += !expected.empty();
  }
  EXPECT_GT(compared, 20);
}

TEST(RandomRunTest, MutatedProgramsAreRefusedOrRun) {
  int refused = 0, ran = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    RandomProgramOptions options;
    options.data = seed % 2 == 0;
    options.events = 8;
    Program program = RandomProgram(seed % 20 + 1, options);
    for (uint64_t change = 0; change <= seed % 3; ++change) Mutate(&program, seed * 10 + change);
    if (!VerifyProgram(program, {.completeness = false}).ok()) {
      ++refused;
      continue;
    }
    if (!Small(program)) continue;
    const absl::Status status = Execute(program, 2, 2);
    EXPECT_TRUE(Acceptable(status)) << "seed " << seed << ": " << status;
    ++ran;
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(ran, 20);
}

}  // namespace
}  // namespace weft
