// A fast first check of the bytes of messages. It saves time because most messages have no errors.
#ifndef WEFT_PROTO_IO_FAST_MESSAGE_CHECK_H_
#define WEFT_PROTO_IO_FAST_MESSAGE_CHECK_H_

#include "absl/strings/string_view.h"
#include "proto/io/wire_message.h"

namespace weft {

// Returns true if `bytes` are a message of this type in which ReadWire (wire_reader.h) finds nothing to refuse. False
// does not mean that the bytes are wrong: errors and uncommon encodings are left to ReadWire, which can name their
// place.
bool LooksRight(absl::string_view bytes, const WireMessage& type);

}  // namespace weft

#endif  // WEFT_PROTO_IO_FAST_MESSAGE_CHECK_H_
