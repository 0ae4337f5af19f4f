// Open MPI as a table of functions that is filled at run time, so that programs that use it start where there is no
// MPI. The declarations are those of the binary interface that Open MPI 4 and 5 share (libmpi.so.40): handles are
// addresses, and the predefined handles are addresses of the library's own data. mpi_table_test.cc compares them with
// an installed mpi.h.
#ifndef WEFT_EXECUTOR_TRANSPORTS_MPI_TABLE_H_
#define WEFT_EXECUTOR_TRANSPORTS_MPI_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace weft::exec {

// MPI_Comm, MPI_Request and the others.
using MpiHandle = void*;

// MPI_Status.
struct MpiStatus {
  int source;
  int tag;
  int error;
  int cancelled;
  size_t bytes;
};

inline constexpr int kMpiSuccess = 0;
inline constexpr int kMpiErrTruncate = 15;
inline constexpr int kMpiErrInStatus = 18;
inline constexpr int kMpiUndefined = -32766;
inline constexpr int kMpiThreadFunneled = 1;
inline constexpr int kMpiCommTypeShared = 0;
inline constexpr int kMpiTagUpperBound = 0;

struct MpiTable {
  int (*initialized)(int* flag) = nullptr;
  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*query_thread)(int* provided) = nullptr;
  int (*is_thread_main)(int* flag) = nullptr;
  int (*finalize)() = nullptr;
  int (*abort)(MpiHandle comm, int exit_status) = nullptr;
  int (*comm_set_errhandler)(MpiHandle comm, MpiHandle handler) = nullptr;
  int (*comm_rank)(MpiHandle comm, int* rank) = nullptr;
  int (*comm_size)(MpiHandle comm, int* size) = nullptr;
  int (*comm_get_attr)(MpiHandle comm, int key, void* value, int* found) = nullptr;
  int (*comm_split_type)(MpiHandle comm, int type, int key, MpiHandle info, MpiHandle* result) = nullptr;
  int (*comm_free)(MpiHandle* comm) = nullptr;
  int (*win_allocate_shared)(intptr_t bytes, int unit, MpiHandle info, MpiHandle comm, void* base,
                             MpiHandle* window) = nullptr;
  int (*win_shared_query)(MpiHandle window, int rank, intptr_t* bytes, int* unit, void* base) = nullptr;
  int (*win_free)(MpiHandle* window) = nullptr;
  int (*barrier)(MpiHandle comm) = nullptr;
  int (*issend)(const void* data, int count, MpiHandle type, int peer, int tag, MpiHandle comm,
                MpiHandle* request) = nullptr;
  int (*irecv)(void* data, int count, MpiHandle type, int peer, int tag, MpiHandle comm, MpiHandle* request) = nullptr;
  int (*testsome)(int count, MpiHandle* requests, int* completed, int* indices, MpiStatus* statuses) = nullptr;
  int (*get_count)(const MpiStatus* status, MpiHandle type, int* count) = nullptr;

  MpiHandle comm_world = nullptr;
  MpiHandle byte = nullptr;
  MpiHandle info_null = nullptr;
  MpiHandle request_null = nullptr;
  MpiHandle errors_return = nullptr;

  // Name and version, as in "Open MPI v4.1.4".
  std::string version;
  // Null if the library cannot report whether it takes memory of CUDA devices. Call it only after init_thread.
  int (*query_cuda_support)() = nullptr;
};

// Extracts "Open MPI v4.1.4" from the text of MPI_Get_library_version. FailedPrecondition if it is not Open MPI 4 or 5.
absl::StatusOr<std::string> CheckedMpiVersion(const std::string& said);

// The library, opened once for the process. FailedPrecondition, in one line, if it is missing or is another MPI.
absl::StatusOr<const MpiTable*> OpenMpiTable();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_MPI_TABLE_H_
