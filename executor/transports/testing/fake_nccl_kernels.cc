#include "executor/transports/testing/fake_nccl_kernels.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "executor/numerics/sum_parts.h"
#include "proto/types.pb.h"

namespace weft::exec::fake_nccl {

World& TheWorld() {
  static World* world = new World;
  return *world;
}

int64_t TypeBytes(int type) { return type == kNcclFloat64 ? 8 : type == kNcclFloat32 ? 4 : type == kNcclUint8 ? 1 : 2; }

void Violation(const std::string& text) { TheWorld().violations.push_back(text); }

int Refuse(const Comm& comm, const std::string& text) {
  Violation(absl::StrCat(comm.name, ", member ", comm.rank, ": ", text));
  return kNcclInvalidUsage;
}

namespace {

DType TypeOf(int type) {
  return type == kNcclFloat64 ? FP64 : type == kNcclFloat32 ? FP32 : type == kNcclBfloat16 ? BF16 : FP16;
}

Op* Partner(const Op& op) {
  const Comm& own = *op.kernel->comm;
  Comm* other = own.clique->members[op.peer];
  const auto found = other->messages.find({op.kind != OpKind::kSend, own.rank});
  return found == other->messages.end() || found->second.size() <= op.number ? nullptr : found->second[op.number];
}

void MoveMessage(Op& op) {
  Op* partner = Partner(op);
  // A member that has aborted may have freed its memory since.
  if (partner == nullptr || !partner->kernel->begun || partner->kernel->comm->dead) return;
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
    if (!other->kernel->begun || other->kernel->comm->dead) return;
    if (other->kind != op.kind || other->count != op.count || other->type != op.type) {
      Refuse(*op.kernel->comm, "members call different collectives");
      op.kernel->comm->error = member->error = kNcclInvalidUsage;
      return;
    }
    ops.push_back(other);
  }
  const int64_t size = TypeBytes(op.type);
  // All sources are read before anything is written, because they may be the destinations.
  std::vector<std::byte> whole;
  if (op.kind == OpKind::kAllGather) {
    for (const Op* other : ops) whole.insert(whole.end(), other->from, other->from + op.count * size);
  } else {
    const int64_t chunks = static_cast<int64_t>(members);
    const int64_t total = op.kind == OpKind::kAllReduce ? op.count : op.count * chunks;
    whole.resize(total * size);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t begin = total * chunk / chunks, end = total * (chunk + 1) / chunks;
      // As in a ring, the sum of a chunk starts after its owner and ends with it. That is not weft's order.
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

}  // namespace

bool Advance(NcclKernel& kernel) {
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

}  // namespace weft::exec::fake_nccl
