#include "executor/data/data_identity.h"

#include <algorithm>
#include <string>
#include <vector>

#include "proto/io/crc32c.h"
#include "proto/io/little_endian.h"
#include "proto/util/status.h"

namespace weft::exec {

absl::StatusOr<DataIdentity> IdentityOf(const InputFile& file, int64_t offset, int64_t bytes, int64_t count) {
  constexpr int64_t kBlock = int64_t{1} << 20;
  std::string size;
  AppendLittleEndian(static_cast<uint64_t>(bytes), 8, &size);
  uint32_t crc = Crc32c(size);
  std::vector<char> block(static_cast<size_t>(std::min(kBlock, bytes)));
  for (const int64_t first : {int64_t{0}, std::max<int64_t>(0, bytes - kBlock)}) {
    WEFT_RETURN_IF_ERROR(file.Read(offset + first, absl::MakeSpan(block)));
    crc = Crc32cExtend(crc, absl::string_view(block.data(), block.size()));
  }
  return DataIdentity{count, crc};
}

}  // namespace weft::exec
