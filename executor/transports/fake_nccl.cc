#include "executor/transports/fake_nccl.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/sum_parts.h"
#include "proto/units.h"

namespace weft {
namespace {

enum class OpKind { kSend, kRecv, kAllReduce, kAllGather, kReduceScatter };

int64_t TypeBytes(int type) { return type == kNcclFloat64 ? 8 : type == kNcclFloat32 ? 4 : type == kNcclUint8 ? 1 : 2; }

DType TypeOf(int type) {
  return type == kNcclFloat64 ? FP64 : type == kNcclFloat32 ? FP32 : type == kNcclBfloat16 ? BF16 : FP16;
}

struct Comm;
struct Kernel;

struct Op {
  OpKind kind;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t count = 0;
  int type = kNcclUint8;
  int peer = -1;
  // Among those that it may match: sends to or receives from the peer, or collectives of the communicator.
  size_t number = 0;
  Kernel* kernel = nullptr;
  bool done = false;
};

// What a group issues to one communicator.
struct Kernel {
  Comm* comm = nullptr;
  FakeGpu* gpu = nullptr;
  int stream = -1;
  int64_t number_of_comm = 0;
  int64_t number_of_gpu = 0;
  bool begun = false;
  std::vector<std::unique_ptr<Op>> ops;
};

struct Clique {
  std::vector<Comm*> members;
  int joined = 0;
};

struct Comm {
  std::string name;
  Clique* clique = nullptr;
  int rank = 0;
  std::thread::id thread;
  std::map<std::pair<bool, int>, std::vector<Op*>> messages;
  std::vector<Op*> collectives;
  int64_t issued = 0;
  int64_t finished = 0;
  std::vector<Kernel*> launches;
  int polls_left = 0;
  int ctas = 0;
  int error = kNcclSuccess;
  bool finalized = false;
  bool dead = false;
};

struct Issue {
  Comm* comm;
  FakeGpu::Handle* on;
  std::unique_ptr<Op> op;
};

struct World {
  std::mutex mutex;
  std::mt19937_64 random;
  uint64_t ids = 0;
  bool in_order = false;
  std::map<uint64_t, std::unique_ptr<Clique>> cliques;
  std::vector<std::unique_ptr<Comm>> comms;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<std::string> violations;
  std::vector<std::string> made;
};

World& TheWorld() {
  static World* world = new World;
  return *world;
}

thread_local int group_depth = 0;
thread_local std::vector<Issue> group_issues;

// The lock is held in all of these.

void Violation(const std::string& text) { TheWorld().violations.push_back(text); }

int Refuse(const Comm& comm, const std::string& text) {
  Violation(absl::StrCat(comm.name, ", member ", comm.rank, ": ", text));
  return kNcclInvalidUsage;
}

Op* Partner(const Op& op) {
  const Comm& own = *op.kernel->comm;
  Comm* other = own.clique->members[op.peer];
  const auto found = other->messages.find({op.kind != OpKind::kSend, own.rank});
  return found == other->messages.end() || found->second.size() <= op.number ? nullptr : found->second[op.number];
}

void MoveMessage(Op& op) {
  Op* partner = Partner(op);
  if (partner == nullptr || !partner->kernel->begun) return;
  Op &send = op.kind == OpKind::kSend ? op : *partner, &recv = op.kind == OpKind::kSend ? *partner : op;
  if (send.count != recv.count || send.type != recv.type) {
    Refuse(*op.kernel->comm, absl::StrCat("a send of ", send.count, " meets a receive of ", recv.count));
    op.kernel->comm->error = partner->kernel->comm->error = kNcclInvalidUsage;
    return;
  }
  if (send.count > 0) std::memcpy(recv.to, send.from, send.count * TypeBytes(send.type));
  send.done = recv.done = true;
}

void RunCollective(Op& op) {
  const Clique& clique = *op.kernel->comm->clique;
  const size_t members = clique.members.size();
  std::vector<Op*> ops;
  for (Comm* member : clique.members) {
    if (member->collectives.size() <= op.number) return;
    Op* other = member->collectives[op.number];
    if (!other->kernel->begun) return;
    if (other->kind != op.kind || other->count != op.count || other->type != op.type) {
      Refuse(*op.kernel->comm, "members call different collectives");
      op.kernel->comm->error = member->error = kNcclInvalidUsage;
      return;
    }
    ops.push_back(other);
  }
  const int64_t size = TypeBytes(op.type);
  // All sources are read before anything is written: they may be the destinations.
  std::vector<std::byte> whole;
  if (op.kind == OpKind::kAllGather) {
    for (const Op* other : ops) whole.insert(whole.end(), other->from, other->from + op.count * size);
  } else {
    const int64_t chunks = static_cast<int64_t>(members);
    const int64_t total = op.kind == OpKind::kAllReduce ? op.count : op.count * chunks;
    whole.resize(total * size);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t begin = total * chunk / chunks, end = total * (chunk + 1) / chunks;
      // As a ring would: the chunk starts behind its owner and ends with it. That is no order of ours.
      std::vector<const void*> parts;
      for (int64_t k = 1; k <= chunks; ++k) parts.push_back(ops[(chunk + k + 1) % chunks]->from + begin * size);
      if (end > begin) SumParts(TypeOf(op.type), end - begin, parts, whole.data() + begin * size);
    }
  }
  for (size_t i = 0; i < members; ++i) {
    const bool share = op.kind == OpKind::kReduceScatter;
    const int64_t bytes = share ? op.count * size : static_cast<int64_t>(whole.size());
    if (bytes > 0) std::memcpy(ops[i]->to, whole.data() + (share ? bytes * static_cast<int64_t>(i) : 0), bytes);
    ops[i]->done = true;
  }
}

// Whether the kernel, which its stream has come to, is over.
bool Advance(Kernel& kernel) {
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  if (!kernel.begun) {
    if (TheWorld().in_order && kernel.number_of_gpu != kernel.gpu->begun) return false;
    if (kernel.comm->ctas > kernel.gpu->free_multiprocessors && !kernel.comm->dead) return false;
    if (kernel.number_of_comm != kernel.comm->finished && !kernel.comm->dead) return false;
    kernel.begun = true;
    ++kernel.gpu->begun;
    kernel.gpu->free_multiprocessors -= kernel.comm->ctas;
  }
  bool over = true;
  for (const std::unique_ptr<Op>& op : kernel.ops) {
    if (!op->done) (op->peer >= 0 ? MoveMessage : RunCollective)(*op);
    over &= op->done;
  }
  return over || kernel.comm->dead;
}

// Without the lock.
int Launch(Kernel* kernel) {
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
  std::vector<Kernel*> launches;
  bool under_way = false;
  {
    std::lock_guard<std::mutex> lock(world.mutex);
    std::vector<Kernel*> kernels;
    for (Issue& issue : issues) {
      Comm* comm = issue.comm;
      auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](Kernel* k) { return k->comm == comm; });
      if (kernel == kernels.end()) {
        if (comm->clique->joined < static_cast<int>(comm->clique->members.size()) || comm->polls_left > 0) {
          return Refuse(*comm, "a call while one is in progress");
        }
        world.kernels.push_back(std::make_unique<Kernel>());
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
    for (Kernel* kernel : kernels) {
      // The first makes connections; later ones are under way now and then.
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
  for (Kernel* kernel : launches) {
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
  // Left to itself NCCL takes up to 32.
  comm->ctas = config->max_ctas == kNcclUndefined ? 32 : config->max_ctas;
  clique->members[rank] = comm;
  if (++clique->joined == ranks) world.made.push_back(comm->name);
  *out = comm;
  return kNcclInProgress;
}

int AsyncError(NcclComm handle, int* error) {
  auto* comm = static_cast<Comm*>(handle);
  std::vector<Kernel*> launches;
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
  for (Kernel* kernel : launches) {
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

int AbortComm(NcclComm handle) {
  auto* comm = static_cast<Comm*>(handle);
  std::lock_guard<std::mutex> lock(TheWorld().mutex);
  if (comm->dead) return Refuse(*comm, "aborted after the end");
  comm->dead = true;
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
  return Flush();
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

}  // namespace weft
