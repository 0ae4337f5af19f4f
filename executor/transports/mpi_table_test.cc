#include "executor/transports/mpi_table.h"

// The header on the machine that builds this, with which the table must agree.
#include <mpi.h>

#include <cstddef>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

static_assert(kMpiSuccess == MPI_SUCCESS && kMpiErrTruncate == MPI_ERR_TRUNCATE &&
              kMpiErrInStatus == MPI_ERR_IN_STATUS && kMpiUndefined == MPI_UNDEFINED &&
              kMpiThreadFunneled == MPI_THREAD_FUNNELED && kMpiCommTypeShared == MPI_COMM_TYPE_SHARED &&
              kMpiTagUpperBound == MPI_TAG_UB);
static_assert(sizeof(MpiHandle) == sizeof(MPI_Comm) && sizeof(MpiHandle) == sizeof(MPI_Request) &&
              sizeof(MpiHandle) == sizeof(MPI_Win) && sizeof(intptr_t) == sizeof(MPI_Aint));
static_assert(sizeof(MpiStatus) == sizeof(MPI_Status) &&
              offsetof(MpiStatus, source) == offsetof(MPI_Status, MPI_SOURCE) &&
              offsetof(MpiStatus, tag) == offsetof(MPI_Status, MPI_TAG) &&
              offsetof(MpiStatus, error) == offsetof(MPI_Status, MPI_ERROR));

TEST(MpiTableTest, HandlesAreThoseOfTheLibrary) {
  const absl::StatusOr<const MpiTable*> table = OpenMpiTable();
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)->comm_world, static_cast<void*>(MPI_COMM_WORLD));
  EXPECT_EQ((*table)->byte, static_cast<void*>(MPI_BYTE));
  EXPECT_EQ((*table)->info_null, static_cast<void*>(MPI_INFO_NULL));
  EXPECT_EQ((*table)->request_null, static_cast<void*>(MPI_REQUEST_NULL));
  EXPECT_EQ((*table)->errors_return, static_cast<void*>(MPI_ERRORS_RETURN));
  EXPECT_THAT((*table)->version, HasSubstr("Open MPI v"));
}

TEST(MpiTableTest, TwoVersionsAreKnown) {
  EXPECT_EQ(*CheckedMpiVersion("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), "Open MPI v4.1.4");
  EXPECT_EQ(*CheckedMpiVersion("Open MPI v5.0.3"), "Open MPI v5.0.3");
  for (const char* said : {"Open MPI v3.1.2, package", "Open MPI v6.0.0", "MPICH Version: 4.1\nMPICH Release", ""}) {
    const absl::Status status = CheckedMpiVersion(said).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << said;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Open MPI 4 and 5"));
  }
}

}  // namespace
}  // namespace weft::exec
