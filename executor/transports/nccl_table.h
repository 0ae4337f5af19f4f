// NCCL as a table of functions that is filled at run time, so that code that uses it builds and starts where there is
// no CUDA. The declarations are those of NCCL 2.28's binary interface, which later versions keep: a communicator is an
// address, a stream is CUDA's handle, and the configuration says which version it was written for. nccl_table_test.cc
// compares them with an installed nccl.h.
//
// Tests fill the table with an NCCL of their own (fake_nccl.h).
#ifndef WEFT_EXECUTOR_TRANSPORTS_NCCL_TABLE_H_
#define WEFT_EXECUTOR_TRANSPORTS_NCCL_TABLE_H_

#include <climits>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace weft::exec {

// ncclComm_t and cudaStream_t.
using NcclComm = void*;
using NcclStream = void*;

// ncclUniqueId.
struct NcclId {
  char bytes[128];
};

// ncclResult_t.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInvalidArgument = 4;
inline constexpr int kNcclInvalidUsage = 5;
inline constexpr int kNcclRemoteError = 6;
inline constexpr int kNcclInProgress = 7;

// ncclDataType_t.
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclFloat16 = 6;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclFloat64 = 8;
inline constexpr int kNcclBfloat16 = 9;

// ncclRedOp_t.
inline constexpr int kNcclSum = 0;

inline constexpr int kNcclUndefined = INT_MIN;
inline constexpr unsigned kNcclConfigMagic = 0xcafebeef;

// The version that this table is written for, and the oldest that it takes. The configuration has had this form since
// 2.28.
inline constexpr int kNcclVersion = 22809;
inline constexpr int kNcclOldestVersion = 22800;

// ncclConfig_t.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = kNcclConfigMagic;
  unsigned version = kNcclVersion;
  int blocking = kNcclUndefined;
  int cga_cluster_size = kNcclUndefined;
  int min_ctas = kNcclUndefined;
  int max_ctas = kNcclUndefined;
  const char* net_name = nullptr;
  int split_share = kNcclUndefined;
  int traffic_class = kNcclUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kNcclUndefined;
  int cta_policy = kNcclUndefined;
  int shrink_share = kNcclUndefined;
  int nvls_ctas = kNcclUndefined;
  int channels_per_net_peer = kNcclUndefined;
  int nvlink_centric_sched = kNcclUndefined;
};

struct NcclTable {
  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(NcclId* id) = nullptr;
  int (*comm_init_rank_config)(NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config) = nullptr;
  int (*comm_finalize)(NcclComm comm) = nullptr;
  int (*comm_destroy)(NcclComm comm) = nullptr;
  int (*comm_abort)(NcclComm comm) = nullptr;
  int (*comm_get_async_error)(NcclComm comm, int* error) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;
  // The message of the calling thread's last failed call.
  const char* (*get_last_error)(NcclComm comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void* data, size_t count, int type, int peer, NcclComm comm, NcclStream stream) = nullptr;
  int (*recv)(void* data, size_t count, int type, int peer, NcclComm comm, NcclStream stream) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int op, NcclComm comm,
                    NcclStream stream) = nullptr;
  // `count` counts what one member gives.
  int (*all_gather)(const void* from, void* to, size_t count, int type, NcclComm comm, NcclStream stream) = nullptr;
  // `count` counts what one member receives.
  int (*reduce_scatter)(const void* from, void* to, size_t count, int type, int op, NcclComm comm,
                        NcclStream stream) = nullptr;

  // In NCCL's format: 10000 x major + 100 x minor + patch.
  int version = 0;
  // The file that the library was loaded from.
  std::string path;
};

// Returns "2.28.9" for 22809.
std::string NcclVersionText(int version);

// FailedPrecondition for versions before kNcclOldestVersion, and from 3.0 on.
absl::Status CheckNcclVersion(int version);

// The library, opened once for the process. Sets the environment variables that the transport relies on
// (docs/transports.md). FailedPrecondition, in one line, if the library is missing or too old.
absl::StatusOr<const NcclTable*> OpenNcclTable();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_NCCL_TABLE_H_
