// A digest that distinguishes clusters. It covers all fields except reliability and price, which affect neither a
// program nor its times. A program stores the digest of its cluster.
#ifndef WEFT_PROTO_IO_CLUSTER_DIGEST_H_
#define WEFT_PROTO_IO_CLUSTER_DIGEST_H_

#include <cstdint>

#include "proto/cluster.pb.h"

namespace weft {

// Returns FNV-1a, 64 bits, of these fields, serialized deterministically.
uint64_t ClusterDigest(const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_PROTO_IO_CLUSTER_DIGEST_H_
