#include "executor/calibrate/calibrate.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/calibrate/calibrate_buffers.h"
#include "executor/calibrate/calibrate_kernels.h"
#include "executor/calibrate/calibrate_program.h"
#include "executor/calibrate/calibrate_rates.h"
#include "executor/collective/collective.h"
#include "executor/interface/backend.h"
#include "executor/interface/compute_slots.h"
#include "executor/interface/transport.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "schedules/collective/plan.h"

namespace weft::exec {
namespace {

// Number of collectives per rank for which scratch memory is reserved. A rank has one collective for each group,
// purpose and bucket of gradients.
constexpr int64_t kReservedCollectives = 16;

double Seconds(int64_t ns) { return 1e-9 * static_cast<double>(ns); }

// Runs `body(thread)` on `count` threads that start together. Returns the first error.
absl::Status OnThreads(int count, const std::function<absl::Status(int)>& body) {
  std::vector<absl::Status> results(count);
  std::vector<std::thread> threads;
  std::barrier start(count);
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      results[i] = body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : results) WEFT_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

// The compute slots on which kernels are measured: the cores that ranks take turns on.
struct Machine {
  Machine(int slots, int threads) : slots(slots), threads(threads) {
    for (int i = 0; i < slots; ++i) {
      backends.push_back(MakeCpuBackend(threads));
      devices.push_back(MakeHostDevice());
      memory.emplace_back(devices.back().get());
    }
  }

  const int slots;
  const int threads;
  // One backend, one device and one memory per slot.
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<ComputeDevice>> devices;
  std::vector<CalibrationMemory> memory;
};

// Seconds of one call while all slots are busy: the lower quartile of a slot's calls, averaged over the slots.
absl::StatusOr<double> Measure(const KernelCase& kernel, Machine& machine, double seconds) {
  std::vector<double> typical(machine.slots);
  WEFT_RETURN_IF_ERROR(OnThreads(machine.slots, [&](int slot) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const auto buffers, KernelBuffers::Create(SmallShapes(), kernel, &machine.memory[slot]));
    std::vector<double> times;
    const int64_t begin = MonotonicNanoseconds();
    for (int64_t now = begin; times.size() < 5 || (Seconds(now - begin) < seconds && times.size() < 2000);) {
      const KernelBuffers::Copy& copy = buffers->Next();
      const int64_t start = MonotonicNanoseconds();
      WEFT_RETURN_IF_ERROR(machine.backends[slot]->Run(kernel.step, copy.inputs, copy.outputs, buffers->context()));
      now = MonotonicNanoseconds();
      times.push_back(Seconds(now - start));
      // A slow kernel does not need a long series.
      if (times.size() >= 3 && Seconds(now - begin) > 3 * seconds) break;
    }
    typical[slot] = Typical(times);
    return absl::OkStatus();
  }));
  double sum = 0;
  for (double time : typical) sum += time;
  return sum / machine.slots;
}

// Seconds from when one rank gives up a slot until the next rank runs on it. The next rank's thread has to wake up
// first.
absl::StatusOr<double> SlotHandover() {
  constexpr int kTurns = 200;
  WEFT_ASSIGN_OR_RETURN(const auto endpoints, (*FindTransport("inproc"))->open(2));
  ComputeSlots turns(1, {endpoints[0].get(), endpoints[1].get()});
  std::atomic<int64_t> released_ns{0};
  std::vector<double> times[2];
  WEFT_RETURN_IF_ERROR(OnThreads(2, [&](int rank) -> absl::Status {
    for (int i = 0; i < kTurns; ++i) {
      bool slept = false;
      while (!turns.Acquire(rank, MonotonicNanoseconds())) {
        WEFT_RETURN_IF_ERROR(endpoints[rank]->WaitForProgress(std::chrono::milliseconds(100)).status());
        slept = true;
      }
      if (slept) times[rank].push_back(Seconds(MonotonicNanoseconds() - released_ns.load()));
      // Keep the slot for 100 us, so that the other rank's thread falls asleep.
      for (const int64_t begin = MonotonicNanoseconds(); MonotonicNanoseconds() - begin < 100000;) {
      }
      released_ns.store(MonotonicNanoseconds());
      turns.Release(rank);
    }
    return absl::OkStatus();
  }));
  times[0].insert(times[0].end(), times[1].begin(), times[1].end());
  return times[0].empty() ? 0.0 : std::max(0.0, Typical(times[0]));
}

// Seconds of a ping-pong between two ranks, with all pairs running at once.
absl::StatusOr<double> RoundTrip(int64_t bytes, int rounds, int pairs) {
  WEFT_ASSIGN_OR_RETURN(const auto endpoints, (*FindTransport("inproc"))->open(2 * pairs));
  std::vector<double> times;
  WEFT_RETURN_IF_ERROR(OnThreads(2 * pairs, [&](int rank) -> absl::Status {
    std::vector<char> out(bytes, 1), in(bytes, 2);
    Transfer send, receive;
    send.data = out.data();
    receive.data = in.data();
    send.bytes = receive.bytes = bytes;
    send.peer = receive.peer = rank ^ 1;
    for (int round = 0; round < rounds; ++round) {
      const int64_t start = MonotonicNanoseconds();
      for (int turn = 0; turn < 2; ++turn) {
        Transfer& transfer = turn == rank % 2 ? send : receive;
        WEFT_RETURN_IF_ERROR(turn == rank % 2 ? endpoints[rank]->PostSend(&transfer)
                                              : endpoints[rank]->PostRecv(&transfer));
        while (!transfer.done.load(std::memory_order_acquire)) {
          WEFT_RETURN_IF_ERROR(endpoints[rank]->WaitForProgress(std::chrono::milliseconds(100)).status());
        }
      }
      if (rank == 0) times.push_back(Seconds(MonotonicNanoseconds() - start));
    }
    return absl::OkStatus();
  }));
  return Typical(times);
}

// Measures the seconds of a tiny all-reduce of all ranks by the algorithm "direct". If there are more ranks than cores,
// most messages have to wake a sleeping thread. The collectives of a run have this cost too.
absl::StatusOr<double> SmallAllReduce(int ranks) {
  constexpr int kUses = 200;
  WEFT_ASSIGN_OR_RETURN(const auto endpoints, (*FindTransport("inproc"))->open(ranks));
  WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* entry, FindCollective("direct"));
  std::vector<CollectivePeer> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back({rank, 0});
  std::vector<double> times;
  WEFT_RETURN_IF_ERROR(OnThreads(ranks, [&](int rank) -> absl::Status {
    double value = 0;
    WEFT_ASSIGN_OR_RETURN(const auto communicator, Communicator::Create(members, rank));
    WEFT_ASSIGN_OR_RETURN(const auto reduce, communicator->Prepare(*entry, CollectiveKind::kAllReduce,
                                                                   {{&value, FP64, 1, &value, FP64, false}}));
    for (int use = 0; use < kUses; ++use) {
      value = 1;
      const int64_t start = MonotonicNanoseconds();
      WEFT_RETURN_IF_ERROR(communicator->Start(*endpoints[rank], *reduce));
      while (true) {
        WEFT_ASSIGN_OR_RETURN(const bool done, communicator->Advance(*endpoints[rank]));
        if (done) break;
        WEFT_RETURN_IF_ERROR(endpoints[rank]->WaitForProgress(std::chrono::milliseconds(100)).status());
      }
      if (rank == 0) times.push_back(Seconds(MonotonicNanoseconds() - start));
    }
    return absl::OkStatus();
  }));
  return Typical(times);
}

// Finds the overhead and latency that reproduce two measurements (docs/simulator.md). A small message takes overhead +
// latency in a ping-pong. A small all-reduce of n ranks takes (n - 1) * overhead + latency.
absl::StatusOr<Link> MeasureLink(int ranks) {
  constexpr int64_t kBytes = 8 << 20;
  // More than 16 ranks would add no information about the link.
  const int members = std::min(ranks, 16);
  // All pairs run at once, as the ranks of a run do. If there are more ranks than cores, the receiver of a message must
  // first get a core.
  WEFT_ASSIGN_OR_RETURN(const double small, RoundTrip(8, 400, std::max(1, members / 2)));
  WEFT_ASSIGN_OR_RETURN(const double alone, RoundTrip(8, 400, 1));
  WEFT_ASSIGN_OR_RETURN(const double large, RoundTrip(kBytes, 15, 1));
  // A rank sends empty messages to itself. Nobody waits, so the time is what both ends spend on a message besides the
  // copy.
  WEFT_ASSIGN_OR_RETURN(const auto endpoints, (*FindTransport("inproc"))->open(1));
  constexpr int kPosts = 2000;
  const int64_t start = MonotonicNanoseconds();
  for (int i = 0; i < kPosts; ++i) {
    Transfer send, receive;
    WEFT_RETURN_IF_ERROR(endpoints[0]->PostSend(&send));
    WEFT_RETURN_IF_ERROR(endpoints[0]->PostRecv(&receive));
  }
  double overhead = Seconds(MonotonicNanoseconds() - start) / kPosts;
  if (members > 2) {
    WEFT_ASSIGN_OR_RETURN(const double all_reduce, SmallAllReduce(members));
    const double per_message = (all_reduce - small / 2) / (members - 2);
    overhead = std::max(overhead, std::min(per_message, small / 2));
  }
  Link link;
  link.set_bytes_per_second(kBytes / std::max(1e-9, (large - alone) / 2));
  link.set_overhead_seconds(overhead);
  link.set_latency_seconds(std::max(0.0, small / 2 - overhead));
  return link;
}

std::string MachineName() {
  utsname name;
  return uname(&name) == 0 ? absl::StrCat(name.sysname, " ", name.machine) : "unknown";
}

}  // namespace

absl::StatusOr<Cluster> Calibrate(const CalibrateOptions& options) {
  if (options.ranks < 1 || options.threads_per_rank < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ranks = ", options.ranks, " and threads per rank = ", options.threads_per_rank, " must be at least 1"));
  }
  auto progress = [&](const std::string& text) {
    if (options.on_progress) options.on_progress(text);
  };
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Machine machine(std::max(1, std::min(options.ranks, cores / options.threads_per_rank)), options.threads_per_rank);

  Cluster cluster;
  cluster.set_name("this-machine");
  cluster.set_source(absl::StrCat("weft calibrate --backend=cpu: ", MachineName(), ", ", cores, " cores, ",
                                  options.ranks, " ranks of ", options.threads_per_rank, " threads"));
  cluster.set_nodes(1);
  cluster.set_devices_per_node(options.ranks);
  cluster.set_compute_slots_per_node(machine.slots);
  if (machine.slots < options.ranks) cluster.set_compute_turn_seconds(Seconds(ComputeSlots::kTurnNs));
  const int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  cluster.set_host_memory_bytes(memory);
  Device& device = *cluster.mutable_device();
  device.set_name(absl::StrCat("cpu, ", options.threads_per_rank, " threads"));
  device.set_memory_bytes(memory / options.ranks);
  // Reserve memory for what the arena does not hold (rule P7): messages of collectives, and workspaces of kernels.
  device.set_reserved_bytes(std::min(kReservedCollectives * Communicator::kScratchBytes, device.memory_bytes() / 4));

  progress("compute slots");
  double handover = 0;
  if (options.ranks > machine.slots) {
    WEFT_ASSIGN_OR_RETURN(handover, SlotHandover());
  }
  progress("links");
  WEFT_ASSIGN_OR_RETURN(*cluster.mutable_intra_node(), MeasureLink(options.ranks));

  const std::vector<ProgramCase> own = CasesOf(options.programs);
  const double each =
      options.seconds / static_cast<double>(CountCases(SmallShapes()) + static_cast<int64_t>(own.size()));
  MeasureKernels measure;
  measure.seconds = [&](const KernelCase& kernel) { return Measure(kernel, machine, each); };
  // A slot passes to another rank after each step or, if steps are short, after a turn of kTurnNs. So a step shorter
  // than a turn bears only part of the handover's cost.
  measure.besides = [&](double seconds) { return handover * std::min(1.0, seconds / Seconds(ComputeSlots::kTurnNs)); };
  measure.on_progress = progress;
  WEFT_RETURN_IF_ERROR(MeasureRates(SmallShapes(), measure, &device));
  std::vector<std::string> left_out;
  WEFT_RETURN_IF_ERROR(MeasureCases(own, measure, &device, &left_out));
  for (const std::string& note : left_out) {
    if (options.on_note) options.on_note(note);
  }

  progress("memory");
  std::vector<char> from(64 << 20, 1), to(64 << 20, 2);
  std::vector<double> copies;
  for (int i = 0; i < 5; ++i) {
    const int64_t start = MonotonicNanoseconds();
    std::memcpy(to.data(), from.data(), from.size());
    copies.push_back(Seconds(MonotonicNanoseconds() - start));
  }
  cluster.mutable_host()->set_bytes_per_second(static_cast<double>(from.size()) / Typical(copies));
  return cluster;
}

}  // namespace weft::exec
