// The version of weft, for `weft --version` and Program.compiler_version.
#ifndef WEFT_PROTO_VERSION_H_
#define WEFT_PROTO_VERSION_H_

namespace weft {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace weft

#endif  // WEFT_PROTO_VERSION_H_
