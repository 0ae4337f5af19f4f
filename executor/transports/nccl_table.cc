#include "executor/transports/nccl_table.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "executor/platform/shared_library.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Sets NCCL's environment variables before NCCL reads them, which it does once.
void SetEnvironment() {
  // With 1, no kernel begins before those that were issued earlier have begun. A receive that is issued ahead, after
  // another on its stream, then delays the work that its partner waits for (docs/transports.md). So the user's value is
  // overwritten.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  // Two threads that issue at once give an error, not a race.
  setenv("NCCL_LAUNCH_RACE_FATAL", "1", 1);
  // With 0, everything that a collective may choose between is connected when its communicator is made, not during a
  // step.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
}

absl::StatusOr<NcclTable> Load() {
  WEFT_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open("NCCL 2", {"libnccl.so.2"}));
  SetEnvironment();
  NcclTable table;
  table.path = library.path();
  WEFT_RETURN_IF_ERROR(library.Load("ncclGetVersion", &table.get_version));
  if (const int result = table.get_version(&table.version); result != kNcclSuccess) {
    return absl::FailedPreconditionError(absl::StrCat(library.path(), " does not report its version: error ", result));
  }
  if (const absl::Status status = CheckNcclVersion(table.version); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(library.path(), " is ", status.message()));
  }
  WEFT_RETURN_IF_ERROR(library.Load("ncclGetUniqueId", &table.get_unique_id));
  WEFT_RETURN_IF_ERROR(library.Load("ncclCommInitRankConfig", &table.comm_init_rank_config));
  WEFT_RETURN_IF_ERROR(library.Load("ncclCommFinalize", &table.comm_finalize));
  WEFT_RETURN_IF_ERROR(library.Load("ncclCommDestroy", &table.comm_destroy));
  WEFT_RETURN_IF_ERROR(library.Load("ncclCommAbort", &table.comm_abort));
  WEFT_RETURN_IF_ERROR(library.Load("ncclCommGetAsyncError", &table.comm_get_async_error));
  WEFT_RETURN_IF_ERROR(library.Load("ncclGetErrorString", &table.get_error_string));
  WEFT_RETURN_IF_ERROR(library.Load("ncclGetLastError", &table.get_last_error));
  WEFT_RETURN_IF_ERROR(library.Load("ncclGroupStart", &table.group_start));
  WEFT_RETURN_IF_ERROR(library.Load("ncclGroupEnd", &table.group_end));
  WEFT_RETURN_IF_ERROR(library.Load("ncclSend", &table.send));
  WEFT_RETURN_IF_ERROR(library.Load("ncclRecv", &table.recv));
  WEFT_RETURN_IF_ERROR(library.Load("ncclAllReduce", &table.all_reduce));
  WEFT_RETURN_IF_ERROR(library.Load("ncclAllGather", &table.all_gather));
  WEFT_RETURN_IF_ERROR(library.Load("ncclReduceScatter", &table.reduce_scatter));
  return table;
}

}  // namespace

std::string NcclVersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::Status CheckNcclVersion(int version) {
  if (version >= kNcclOldestVersion && version < 30000) return absl::OkStatus();
  // Before 2.9 NCCL counted its versions differently.
  const std::string found =
      version < 10000 ? absl::StrCat(version / 1000, ".", version / 100 % 10) : NcclVersionText(version);
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL ", found, " is not supported; allowed: 2.28 and later 2.x; weft was tried with ",
                   NcclVersionText(kNcclVersion)));
}

absl::StatusOr<const NcclTable*> OpenNcclTable() {
  static const absl::StatusOr<NcclTable>* const table = new absl::StatusOr<NcclTable>(Load());
  if (!table->ok()) {
    return absl::FailedPreconditionError(absl::StrCat("transport 'nccl': ", table->status().message()));
  }
  return &**table;
}

}  // namespace weft::exec
