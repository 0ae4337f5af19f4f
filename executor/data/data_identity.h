// The identity of a file of training data.
#ifndef WEFT_EXECUTOR_DATA_DATA_IDENTITY_H_
#define WEFT_EXECUTOR_DATA_DATA_IDENTITY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "executor/data/data.h"
#include "executor/platform/input_file.h"

namespace weft::exec {

// Returns the identity of `count` tokens or images: the `bytes` bytes of the file from `offset` on. Reads at most 2
// MiB.
absl::StatusOr<DataIdentity> IdentityOf(const InputFile& file, int64_t offset, int64_t bytes, int64_t count);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_DATA_DATA_IDENTITY_H_
