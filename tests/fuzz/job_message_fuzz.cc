// Fuzz target: the messages that the processes of a job read from the network. The first byte of the input chooses the
// reader, the second the size of the pieces in which a stream's bytes arrive.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "executor/job/handshake.h"
#include "executor/job/store_message.h"
#include "executor/transports/tcp_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  switch (data[0] % 5) {
    case 0: {
      // Every message is within the size limit, and a decoded request encodes to the same bytes.
      weft::exec::StoreMessageReader reader;
      std::string message;
      const size_t step = 1 + data[1];
      for (size_t at = 0; at < bytes.size(); at += step) {
        if (!reader.Append(bytes.substr(at, step)).ok()) return 0;
        while (reader.Next(&message)) {
          if (message.empty() || message.size() > weft::exec::kMaxStoreMessageBytes) std::abort();
          const auto request = weft::exec::DecodeStoreRequest(message);
          if (request.ok() && weft::exec::EncodeStoreRequest(*request) != message) std::abort();
        }
      }
      return 0;
    }
    case 1: {
      const auto request = weft::exec::DecodeStoreRequest(bytes);
      if (request.ok() && weft::exec::EncodeStoreRequest(*request) != bytes) std::abort();
      return 0;
    }
    case 2: {
      const auto reply = weft::exec::DecodeStoreReply(bytes);
      const std::string again = weft::exec::EncodeStoreReply(reply.status(), reply.ok() ? *reply : "");
      // Bytes that are no reply decode to InvalidArgument.
      if (!absl::IsInvalidArgument(reply.status()) && again != bytes) std::abort();
      if (weft::exec::DecodeFailure(bytes).ok()) std::abort();
      return 0;
    }
    case 3: {
      const auto hello = weft::exec::DecodeHello(bytes);
      if (hello.ok() && weft::exec::EncodeHello(*hello) != bytes) std::abort();
      return 0;
    }
    default: {
      const auto frame = weft::exec::ParseFrame(bytes.substr(0, weft::exec::kFrameBytes), 1 + data[1]);
      if (frame.ok()) {
        if (frame->payload > weft::exec::kMaxPartBytes || frame->channel < 0 || frame->bytes < 0) std::abort();
        std::string again;
        weft::exec::AppendFrame(&again, *frame);
        if (again != bytes.substr(0, weft::exec::kFrameBytes)) std::abort();
      }
      if (weft::exec::DecodeStatus(bytes).ok()) std::abort();
      return 0;
    }
  }
}
