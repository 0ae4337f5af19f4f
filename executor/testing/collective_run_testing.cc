#include "executor/testing/collective_run_testing.h"

#include <chrono>
#include <thread>
#include <utility>

#include "executor/interpreter/interpreter.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

// Counts the messages and bytes that its rank sends.
class CountingEndpoint : public Endpoint {
 public:
  explicit CountingEndpoint(Endpoint* endpoint) : endpoint_(*endpoint) {}
  int rank() const override { return endpoint_.rank(); }
  int size() const override { return endpoint_.size(); }
  absl::Status PostSend(Transfer* transfer) override {
    ++messages;
    bytes += transfer->bytes;
    return endpoint_.PostSend(transfer);
  }
  absl::Status PostRecv(Transfer* transfer) override { return endpoint_.PostRecv(transfer); }
  absl::StatusOr<bool> Poll() override { return endpoint_.Poll(); }
  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    return endpoint_.WaitForProgress(timeout);
  }
  void Wake() override { endpoint_.Wake(); }
  bool Abort(const absl::Status& status) override { return endpoint_.Abort(status); }
  void Note(int64_t step, int32_t action) override { endpoint_.Note(step, action); }
  absl::Status CheckPeers(LastNote* last) override { return endpoint_.CheckPeers(last); }

  int64_t messages = 0;
  int64_t bytes = 0;

 private:
  Endpoint& endpoint_;
};

// Calls `before` before every kernel.
class HookedBackend : public Backend {
 public:
  HookedBackend(int rank, std::function<void(int, const std::string&)> before)
      : rank_(rank), before_(std::move(before)), backend_(MakeCpuBackend(1)) {}
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    if (before_) before_(rank_, step.name());
    return backend_->Run(step, inputs, outputs, context);
  }

 private:
  int rank_;
  std::function<void(int, const std::string&)> before_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace

Outcome RunSteps(const Program& program, int64_t repetitions,
                 const std::function<void(int, const std::string&)>& before) {
  const int ranks = static_cast<int>(MeshRanks(program.mesh()));
  auto endpoints = *(*FindTransport("inproc"))->open(ranks);
  Outcome outcome;
  outcome.traces.resize(ranks);
  outcome.messages.resize(ranks);
  outcome.bytes.resize(ranks);
  outcome.statuses.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    outcome.arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), 0));
    auto* data = reinterpret_cast<float*>(outcome.arenas[rank]->Data(t.buffers(0)));
    for (int i = 0; i < t.buffers(0).bytes() / 4; ++i) data[i] = static_cast<float>(100 * rank + i);
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      HookedBackend backend(rank, before);
      CountingEndpoint endpoint(endpoints[rank].get());
      InterpreterOptions options;
      options.timeout = std::chrono::seconds(20);
      options.trace_repetitions = repetitions;
      const auto run = [&]() -> absl::Status {
        auto interpreter = Interpreter::Create(program, &endpoint, &backend, outcome.arenas[rank].get(), options);
        if (!interpreter.ok()) return interpreter.status();
        if (absl::Status status = (*interpreter)->RunBody(0, repetitions).status(); !status.ok()) return status;
        outcome.traces[rank] = (*interpreter)->TakeTrace();
        return absl::OkStatus();
      };
      outcome.statuses[rank] = run();
      if (!outcome.statuses[rank].ok()) endpoint.Abort(outcome.statuses[rank]);
      outcome.messages[rank] = endpoint.messages;
      outcome.bytes[rank] = endpoint.bytes;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

std::vector<float> Content(const Outcome& outcome, const Program& program, int rank, int buffer) {
  const Template& t = program.templates(TemplateOfRank(program, rank));
  const auto* data = reinterpret_cast<const float*>(outcome.arenas[rank]->Data(t.buffers(buffer)));
  return {data, data + t.buffers(buffer).bytes() / 4};
}

}  // namespace weft::exec
