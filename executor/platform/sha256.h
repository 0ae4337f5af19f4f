// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for the proof that a process belongs to a job (handshake.h). They
// hash a few hundred bytes per process of a job, so no cryptographic library has to be linked for it.
#ifndef WEFT_EXECUTOR_PLATFORM_SHA256_H_
#define WEFT_EXECUTOR_PLATFORM_SHA256_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft::exec {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(absl::string_view data);

Sha256Digest HmacSha256(absl::string_view key, absl::string_view message);

// True if both are equal. The time depends on the lengths alone. False for different lengths.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_SHA256_H_
