// A digest that distinguishes clusters. It covers all fields that may affect a program or its times, that is, all
// except reliability and price. A program stores the digest of its cluster.
#ifndef WEFT_PROTO_IO_CLUSTER_DIGEST_H_
#define WEFT_PROTO_IO_CLUSTER_DIGEST_H_

#include <cstdint>

#include "proto/cluster.pb.h"

namespace weft {

// Returns FNV-1a, 64 bits, of these fields, serialized deterministically.
uint64_t ClusterDigest(const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_PROTO_IO_CLUSTER_DIGEST_H_
