#include "simulator/own_runtime.h"

#include "proto/io/io.h"
#include "proto/util/status.h"

namespace weft::sim {
namespace {

constexpr char kText[] =
#include "simulator/own_runtime.inc"
    ;

}  // namespace

absl::StatusOr<Runtime> OwnRuntime() {
  Runtime runtime;
  WEFT_RETURN_IF_ERROR(ParseMessage(kText, "catalog/runtimes/weft.textproto", &runtime));
  return runtime;
}

}  // namespace weft::sim
