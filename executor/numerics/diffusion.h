// Training inputs of a diffusion model besides its images: noise levels, noise, and how much of each image is left
// (docs/kernels.md). Everything is a function of the seed and the global sample.
#ifndef WEFT_EXECUTOR_NUMERICS_DIFFUSION_H_
#define WEFT_EXECUTOR_NUMERICS_DIFFUSION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace weft::exec {

// Noise level of a sample, in [0, diffusion_steps); diffusion_steps from 1 to 2^20.
int64_t TimestepOfSample(uint64_t seed, int64_t sample, int64_t diffusion_steps);

// Elements [first, first + out.size()) of a sample's noise, normal with mean 0 and variance 1. An element is
// position * channels + channel.
void NoiseOfSample(uint64_t seed, int64_t sample, int64_t first, absl::Span<double> out);

// The share of an image's variance that is left at a level (alpha-bar of Ho et al. 2020). Linear: betas from 1e-4 to
// 0.02, times 1000 / diffusion_steps (Nichol and Dhariwal 2021, arXiv:2102.09672, keep the same total whatever the
// number of levels); cosine: the same paper, eq. 17, betas at most 0.999.
double SignalLevel(int64_t diffusion_steps, bool cosine_schedule, int64_t timestep);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_DIFFUSION_H_
