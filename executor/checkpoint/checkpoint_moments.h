// Notes on optimizer moments that a program keeps in fewer bits than the checkpoint that it continues from.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MOMENTS_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MOMENTS_H_

#include <string>

#include "executor/checkpoint/checkpoint.pb.h"
#include "proto/program.pb.h"

namespace weft::exec {

// Returns a note if loading rounds the checkpoint's moments. Empty if it does not. Also empty if a file cannot be read;
// the code that loads the moments then reports why.
std::string NoteOnMoments(const std::string& checkpoint, const CheckpointManifest& manifest, const Program& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MOMENTS_H_
