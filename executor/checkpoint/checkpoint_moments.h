// Moments of the optimizer that a program keeps in fewer bits than the checkpoint that it goes on from.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MOMENTS_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MOMENTS_H_

#include <string>

#include "executor/checkpoint/checkpoint.pb.h"
#include "proto/program.pb.h"

namespace weft::exec {

// A note where loading rounds the checkpoint's moments; empty where it does not, or where no file can be read that has
// one (whoever loads them says why).
std::string NoteOnMoments(const std::string& checkpoint, const CheckpointManifest& manifest, const Program& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_MOMENTS_H_
