#include "executor/transports/testing/fake_nccl.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/transports/testing/fake_nccl_kernels.h"

namespace weft::exec {
namespace {

using namespace fake_nccl;  // NOLINT: fake_nccl_kernels.cc, the other half of this file, is in this namespace.

thread_local int group_depth = 0;
thread_local std::vector<Issue> group_issues;
thread_local std::vector<Comm*> group_aborts;

// Called without the lock.
int Launch(NcclKernel* kernel) {
  const absl::Status status = kernel->gpu->EnqueueWhen(
      kernel->stream, [kernel] { return Advance(*kernel); },
      [kernel] {
        std::lock_guard<std::mutex> lock(TheWorld().mutex);
        ++kernel->comm->finished;
        kernel->gpu->free_multiprocessors += kernel->comm->ctas;
        return absl::OkStatus();
      });
  return status.ok() ? kNcclSuccess : 1;
}

int CheckCall(Comm* comm) {
  if (comm->dead) return Refuse(*comm, "a call after the end");
  if (comm->thread != std::this_thread::get_id()) return Refuse(*comm, "a call by another thread");
  return kNcclSuccess;
}

int Flush() {
  World& world = TheWorld();
  std::vector<Issue> issues = std::exchange(group_issues, {});
  std::vector<NcclKernel*> launches;
  bool under_way = false;
  {
    std::lock_guard<std::mutex> lock(world.mutex);
    std::vector<NcclKernel*> kernels;
    for (Issue& issue : issues) {
      Comm* comm = issue.comm;
      auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](NcclKernel* k) { return k->comm == comm; });
      if (kernel == kernels.end()) {
        if (comm->clique->joined < static_cast<int>(comm->clique->members.size()) || comm->polls_left > 0) {
          return Refuse(*comm, "a call while one is in progress");
        }
        world.kernels.push_back(std::make_unique<NcclKernel>());
        kernel = kernels.insert(kernels.end(), world.kernels.back().get());
        (*kernel)->comm = comm;
        (*kernel)->gpu = issue.on->gpu;
        (*kernel)->stream = issue.on->stream;
        (*kernel)->number_of_comm = comm->issued++;
        (*kernel)->number_of_gpu = issue.on->gpu->issued++;
      } else if ((*kernel)->stream != issue.on->stream) {
        return Refuse(*comm, "a group of one communicator on two streams");
      }
      Op* op = issue.op.get();
      op->kernel = *kernel;
      std::vector<Op*>& list =
          op->peer >= 0 ? comm->messages[{op->kind == OpKind::kSend, op->peer}] : comm->collectives;
      op->number = list.size();
      list.push_back(op);
      (*kernel)->ops.push_back(std::move(issue.op));
    }
    for (NcclKernel* kernel : kernels) {
      // The first kernel of a communicator makes connections, so its call stays under way. Only some later calls do.
      Comm* comm = kernel->comm;
      if (kernel->number_of_comm == 0 || world.random() % 8 == 0) {
        comm->polls_left = static_cast<int>(world.random() % 4 + 1);
        comm->launches.push_back(kernel);
        under_way = true;
      } else {
        launches.push_back(kernel);
      }
    }
  }
  for (NcclKernel* kernel : launches) {
    if (const int result = Launch(kernel); result != kNcclSuccess) return result;
  }
  return under_way ? kNcclInProgress : kNcclSuccess;
}

int AddOp(NcclComm handle, NcclStream stream, Op op, int64_t source_elements, int64_t target_elements, const void* from,
          void* to) {
  auto* comm = static_cast<Comm*>(handle);
  auto* on = static_cast<FakeGpu::Handle*>(stream);
  {
    std::lock_guard<std::mutex> lock(TheWorld().mutex);
    if (const int result = CheckCall(comm); result != kNcclSuccess) return result;
    if (on == nullptr) return Refuse(*comm, "no stream");
    if (op.peer >= static_cast<int>(comm->clique->members.size())) return Refuse(*comm, "no such peer");
  }
  const int64_t size = TypeBytes(op.type);
  for (const bool source : {true, false}) {
    const int64_t elements = source ? source_elements : target_elements;
    if (elements < 0) continue;
    const auto found = on->gpu->OnHost(source ? from : to, elements * size);
    if (!found.ok()) {
      std::lock_guard<std::mutex> lock(TheWorld().mutex);
      return Refuse(*comm, std::string(found.status().message()));
    }
    (source ? const_cast<std::byte*&>(op.from) : op.to) = *found;
  }
  group_issues.push_back({comm, on, std::make_unique<Op>(op)});
  return group_depth > 0 ? kNcclSuccess : Flush();
}

int GetVersion(int* version) {
  *version = kNcclVersion;
  return kNcclSuccess;
}

int GetUniqueId(NcclId* id) {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  *id = {};
  const uint64_t number = ++TheWorld().ids;
  std::memcpy(id->bytes, &number, sizeof number);
  return kNcclSuccess;
}

int CommInit(NcclComm* out, int ranks, NcclId id, int rank, NcclConfig* config) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mutex);
  *out = nullptr;
  if (config->size != sizeof(NcclConfig) || config->magic != kNcclConfigMagic || config->blocking != 0 ||
      config->comm_name == nullptr || rank < 0 || rank >= ranks) {
    Violation("a communicator with a wrong configuration");
    return kNcclInvalidArgument;
  }
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  std::unique_ptr<Clique>& clique = world.cliques[number];
  if (clique == nullptr) {
    clique = std::make_unique<Clique>();
    clique->members.resize(ranks);
  }
  if (static_cast<int>(clique->members.size()) != ranks || clique->members[rank] != nullptr) {
    Violation(absl::StrCat(config->comm_name, ": members disagree"));
    return kNcclInvalidArgument;
  }
  Comm* comm = world.comms.emplace_back(std::make_unique<Comm>()).get();
  comm->name = config->comm_name;
  comm->clique = clique.get();
  comm->rank = rank;
  comm->thread = std::this_thread::get_id();
  // By default NCCL takes up to 32.
  comm->ctas = config->max_ctas == kNcclUndefined ? 32 : config->max_ctas;
  clique->members[rank] = comm;
  if (++clique->joined == ranks) world.made.push_back(comm->name);
  *out = comm;
  return kNcclInProgress;
}

int AsyncError(NcclComm handle, int* error) {
  auto* comm = static_cast<Comm*>(handle);
  std::vector<NcclKernel*> launches;
  {
    std::lock_guard<std::mutex> lock(TheWorld().mutex);
    if (const int result = CheckCall(comm); result != kNcclSuccess) return result;
    *error = comm->error;
    if (*error != kNcclSuccess) return kNcclSuccess;
    const auto& members = comm->clique->members;
    bool waits = comm->clique->joined < static_cast<int>(members.size());
    if (comm->polls_left > 0) {
      waits |= --comm->polls_left > 0;
      if (comm->polls_left == 0) launches = std::exchange(comm->launches, {});
    }
    if (comm->finalized) {
      waits |= comm->finished < comm->issued ||
               std::any_of(members.begin(), members.end(), [](const Comm* m) { return !m->finalized; });
    }
    *error = waits ? kNcclInProgress : kNcclSuccess;
  }
  for (NcclKernel* kernel : launches) {
    if (const int result = Launch(kernel); result != kNcclSuccess) return result;
  }
  return kNcclSuccess;
}

int Finalize(NcclComm handle) {
  auto* comm = static_cast<Comm*>(handle);
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  if (const int result = CheckCall(comm); result != kNcclSuccess) return result;
  comm->finalized = true;
  return kNcclInProgress;
}

int Destroy(NcclComm handle) {
  auto* comm = static_cast<Comm*>(handle);
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  if (const int result = CheckCall(comm); result != kNcclSuccess) return result;
  if (!comm->finalized || comm->finished < comm->issued) return Refuse(*comm, "destroyed with work under way");
  comm->dead = true;
  return kNcclSuccess;
}

// Frees the memory of these communicators. That waits for all kernels of the device, including kernels of other
// communicators that wait for a partner.
int Reclaim(const std::vector<Comm*>& comms) {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  for (const Comm* comm : comms) {
    for (const auto& other : TheWorld().comms) {
      if (other->thread != comm->thread || other->dead || other->finished == other->issued) continue;
      return Refuse(*comm, absl::StrCat("is ended while kernels of ", other->name, " run: it may wait for ever"));
    }
  }
  return kNcclSuccess;
}

int AbortComm(NcclComm handle) {
  auto* comm = static_cast<Comm*>(handle);
  {
    std::lock_guard<std::mutex> lock(TheWorld().mutex);
    if (comm->dead) return Refuse(*comm, "aborted after the end");
    // The communicator's kernels end from now on.
    comm->dead = true;
  }
  if (group_depth == 0) return Reclaim({comm});
  group_aborts.push_back(comm);
  return kNcclSuccess;
}

const char* ErrorString(int result) {
  return result == kNcclInvalidUsage  ? "invalid usage"
         : result == kNcclRemoteError ? "remote process exited or there was a network error"
                                      : "error";
}

const char* LastError(NcclComm) { return "of the fake"; }

int GroupStart() {
  ++group_depth;
  return kNcclSuccess;
}

int GroupEnd() {
  if (--group_depth > 0) return kNcclSuccess;
  const int result = Flush(), reclaimed = Reclaim(std::exchange(group_aborts, {}));
  return reclaimed == kNcclSuccess ? result : reclaimed;
}

int Send(const void* data, size_t count, int type, int peer, NcclComm comm, NcclStream stream) {
  const int64_t elements = static_cast<int64_t>(count);
  return AddOp(comm, stream, {.kind = OpKind::kSend, .count = elements, .type = type, .peer = peer}, elements, -1, data,
               nullptr);
}

int Recv(void* data, size_t count, int type, int peer, NcclComm comm, NcclStream stream) {
  const int64_t elements = static_cast<int64_t>(count);
  return AddOp(comm, stream, {.kind = OpKind::kRecv, .count = elements, .type = type, .peer = peer}, -1, elements,
               nullptr, data);
}

int64_t Members(NcclComm comm) { return static_cast<int64_t>(static_cast<Comm*>(comm)->clique->members.size()); }

int AllReduce(const void* from, void* to, size_t count, int type, int, NcclComm comm, NcclStream stream) {
  const int64_t elements = static_cast<int64_t>(count);
  return AddOp(comm, stream, {.kind = OpKind::kAllReduce, .count = elements, .type = type}, elements, elements, from,
               to);
}

int AllGather(const void* from, void* to, size_t count, int type, NcclComm comm, NcclStream stream) {
  const int64_t elements = static_cast<int64_t>(count);
  return AddOp(comm, stream, {.kind = OpKind::kAllGather, .count = elements, .type = type}, elements,
               elements * Members(comm), from, to);
}

int ReduceScatter(const void* from, void* to, size_t count, int type, int, NcclComm comm, NcclStream stream) {
  const int64_t elements = static_cast<int64_t>(count);
  return AddOp(comm, stream, {.kind = OpKind::kReduceScatter, .count = elements, .type = type},
               elements * Members(comm), elements, from, to);
}

}  // namespace

void* FakeGpu::NativeStream(int stream) {
  for (Handle& handle : handles_) {
    if (handle.stream == stream) return &handle;
  }
  return &handles_.emplace_back(Handle{this, stream});
}

const NcclTable& FakeNccl::Table() {
  static const NcclTable* const table = new NcclTable{.get_version = GetVersion,
                                                      .get_unique_id = GetUniqueId,
                                                      .comm_init_rank_config = CommInit,
                                                      .comm_finalize = Finalize,
                                                      .comm_destroy = Destroy,
                                                      .comm_abort = AbortComm,
                                                      .comm_get_async_error = AsyncError,
                                                      .get_error_string = ErrorString,
                                                      .get_last_error = LastError,
                                                      .group_start = GroupStart,
                                                      .group_end = GroupEnd,
                                                      .send = Send,
                                                      .recv = Recv,
                                                      .all_reduce = AllReduce,
                                                      .all_gather = AllGather,
                                                      .reduce_scatter = ReduceScatter,
                                                      .version = kNcclVersion,
                                                      .path = "fake"};
  return *table;
}

void FakeNccl::Reset(uint64_t seed) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mutex);
  world.random.seed(seed);
  world.kernels.clear();
  world.comms.clear();
  world.cliques.clear();
  world.violations.clear();
  world.made.clear();
  world.in_order = false;
}

void FakeNccl::BeginInOrder(bool in_order) {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  TheWorld().in_order = in_order;
}

std::vector<std::string> FakeNccl::Violations() {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  return TheWorld().violations;
}

std::vector<std::string> FakeNccl::Made() {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  return TheWorld().made;
}

int FakeNccl::Alive() {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  int alive = 0;
  for (const auto& comm : TheWorld().comms) alive += !comm->dead;
  return alive;
}

void FakeNccl::Fail(const std::string& name, int error) {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  for (const auto& comm : TheWorld().comms) {
    if (comm->name == name && !comm->dead) comm->error = error;
  }
}

}  // namespace weft::exec
