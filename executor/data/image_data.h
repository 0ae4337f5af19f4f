// Training images from an image file (docs/data.md). Internal: OpenData (data.h) opens whatever a program reads.
#ifndef WEFT_EXECUTOR_DATA_IMAGE_DATA_H_
#define WEFT_EXECUTOR_DATA_IMAGE_DATA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/data/data.h"

namespace weft::exec {

// The file's images must have the size and channels that the options state. Pixels that are not finite are refused, and
// the error names image and element. The first 2^26 pixels are checked here, later ones when a sample has them.
absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(const DataOptions& options);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_DATA_IMAGE_DATA_H_
