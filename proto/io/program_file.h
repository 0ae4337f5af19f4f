// The file that holds a compiled program (rule P13):
//
//   offset 0  magic "WEFTPROG"
//          8  format version, u32
//         12  length of the payload, u64
//         20  CRC32C of the payload, u32
//         24  payload: the serialized Program, deterministic        all integers little-endian
//
// These functions guard the bytes; weft::VerifyProgram checks what the program means.
#ifndef WEFT_PROTO_IO_PROGRAM_FILE_H_
#define WEFT_PROTO_IO_PROGRAM_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/program.pb.h"

namespace weft {

inline constexpr uint32_t kProgramFormatVersion = 1;

// True if a file that begins with these bytes is meant to be a program file.
bool LooksLikeProgram(absl::string_view bytes);

// Returns the whole file; equal programs give equal bytes. Returns an empty string for a program beyond 2 GiB;
// WriteProgram then returns an error.
std::string SerializeProgram(const Program& program);

// Reads a program file. Refuses with "SOURCE: ...": wrong magic, a newer version, wrong length or CRC, unknown fields
// and enum values at any depth.
absl::StatusOr<Program> ParseProgram(absl::string_view bytes, absl::string_view source);

absl::StatusOr<Program> ReadProgram(const std::string& path);
absl::Status WriteProgram(const Program& program, const std::string& path);

// CRC32C of the payload: the identity of a program in traces.
uint32_t ProgramCrc(const Program& program);

}  // namespace weft

#endif  // WEFT_PROTO_IO_PROGRAM_FILE_H_
