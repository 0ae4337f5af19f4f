// Bytes that ranks send in one repetition of the body, by purpose. They follow from transfers and from the algorithms
// of collectives, whatever the network.
#ifndef WEFT_SIMULATOR_METRICS_SENT_BYTES_H_
#define WEFT_SIMULATOR_METRICS_SENT_BYTES_H_

#include <cstdint>
#include <map>
#include <string>

#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// Returns bytes by purpose: "transfer", or the purpose of a collective in lower case. All ranks of a template send the
// same number of bytes. Sums saturate. A purpose that sends nothing is left out.
std::map<std::string, int64_t> BytesSent(const Mesh& mesh, const TemplateView& t);

// Returns a + b, at most INT64_MAX. Both must be >= 0.
int64_t AddBytes(int64_t a, int64_t b);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_SENT_BYTES_H_
