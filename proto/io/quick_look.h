// A first look at the bytes of a message, of which most are right.
#ifndef WEFT_PROTO_IO_QUICK_LOOK_H_
#define WEFT_PROTO_IO_QUICK_LOOK_H_

#include "absl/strings/string_view.h"
#include "proto/io/wire_message.h"

namespace weft {

// Whether `bytes` are a message of this type of which ReadWire (wire_reader.h) refuses nothing. False does not say that
// they are not: what is wrong, and what is written in an uncommon way, is left to a reader that can say where.
bool LooksRight(absl::string_view bytes, const WireMessage& type);

}  // namespace weft

#endif  // WEFT_PROTO_IO_QUICK_LOOK_H_
