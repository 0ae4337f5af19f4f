#include "executor/transports/mpi_table.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/platform/shared_library.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Longer than the text of any library. In Open MPI, MPI_MAX_LIBRARY_VERSION_STRING is 256.
constexpr int kMaxVersionBytes = 8192;

absl::StatusOr<MpiTable> Load() {
  // Global, because the library's modules look for its symbols among those of the process.
  WEFT_ASSIGN_OR_RETURN(const SharedLibrary library,
                        SharedLibrary::Open("Open MPI", {"libmpi.so.40"}, SharedLibrary::Scope::kGlobal));
  MpiTable table;
  int (*version)(char* text, int* length) = nullptr;
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Get_library_version", &version));
  std::string said(kMaxVersionBytes, '\0');
  int length = 0;
  if (version(said.data(), &length) != kMpiSuccess || length < 0 || length > kMaxVersionBytes) length = 0;
  said.resize(length);
  absl::StatusOr<std::string> checked = CheckedMpiVersion(said);
  if (!checked.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(library.path(), ": ", checked.status().message()));
  }
  table.version = *checked;
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Initialized", &table.initialized));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Init_thread", &table.init_thread));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Query_thread", &table.query_thread));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Is_thread_main", &table.is_thread_main));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Finalize", &table.finalize));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Abort", &table.abort));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Comm_set_errhandler", &table.comm_set_errhandler));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Comm_rank", &table.comm_rank));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Comm_size", &table.comm_size));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Comm_get_attr", &table.comm_get_attr));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Comm_split_type", &table.comm_split_type));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Comm_free", &table.comm_free));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Win_allocate_shared", &table.win_allocate_shared));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Win_shared_query", &table.win_shared_query));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Win_free", &table.win_free));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Barrier", &table.barrier));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Issend", &table.issend));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Irecv", &table.irecv));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Testsome", &table.testsome));
  WEFT_RETURN_IF_ERROR(library.Load("MPI_Get_count", &table.get_count));
  char *world = nullptr, *byte = nullptr, *info = nullptr, *request = nullptr, *errors = nullptr;
  WEFT_RETURN_IF_ERROR(library.Load("ompi_mpi_comm_world", &world));
  WEFT_RETURN_IF_ERROR(library.Load("ompi_mpi_byte", &byte));
  WEFT_RETURN_IF_ERROR(library.Load("ompi_mpi_info_null", &info));
  WEFT_RETURN_IF_ERROR(library.Load("ompi_request_null", &request));
  WEFT_RETURN_IF_ERROR(library.Load("ompi_mpi_errors_return", &errors));
  table.comm_world = world;
  table.byte = byte;
  table.info_null = info;
  table.request_null = request;
  table.errors_return = errors;
  // An extension, which a library may lack.
  if (void* query = library.Find("MPIX_Query_cuda_support")) {
    table.query_cuda_support = reinterpret_cast<int (*)()>(query);
  }
  return table;
}

}  // namespace

absl::StatusOr<std::string> CheckedMpiVersion(const std::string& said) {
  constexpr absl::string_view kName = "Open MPI v";
  const std::string first = said.substr(0, said.find_first_of(",\n"));
  for (const absl::string_view major : {"4.", "5."}) {
    if (absl::StartsWith(first, absl::StrCat(kName, major))) return first;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the MPI library is '", first, "'; transport 'mpi' supports Open MPI 4 and 5"));
}

absl::StatusOr<const MpiTable*> OpenMpiTable() {
  static const absl::StatusOr<MpiTable>* const table = new absl::StatusOr<MpiTable>(Load());
  if (!table->ok()) {
    return absl::FailedPreconditionError(absl::StrCat("transport 'mpi': ", table->status().message()));
  }
  return &**table;
}

}  // namespace weft::exec
