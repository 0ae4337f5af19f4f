#include <cstdlib>
#include <utility>

#include "executor/backends/cuda/conformance/machine.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {

Machine& TheMachine() {
  static auto* machine = [] {
    auto opened = OpenMachine();
    if (!opened.ok()) {
      ADD_FAILURE() << opened.status();
      std::exit(1);
    }
    return new Machine(*std::move(opened));
  }();
  return *machine;
}

int TheStream() {
  static const int stream = TheMachine().device->NewStream(ComputeDevice::Priority::kNormal).value();
  return stream;
}

}  // namespace weft::exec::cuda
