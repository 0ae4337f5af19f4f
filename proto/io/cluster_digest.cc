#include "proto/io/cluster_digest.h"

#include <string>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace weft {

uint64_t ClusterDigest(const Cluster& cluster) {
  Cluster machine = cluster;
  // These fields affect neither a program nor its times, so the digest ignores them.
  machine.clear_reliability();
  machine.clear_dollars_per_device_hour();
  machine.clear_watts_per_device();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    machine.SerializeToCodedStream(&coded);
  }
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace weft
