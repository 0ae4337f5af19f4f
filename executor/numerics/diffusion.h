// Training inputs of a diffusion model besides its images: noise levels, noise, and the share of each image that the
// noise leaves (docs/kernels.md). Noise levels and noise are functions of the seed and the global sample.
#ifndef WEFT_EXECUTOR_NUMERICS_DIFFUSION_H_
#define WEFT_EXECUTOR_NUMERICS_DIFFUSION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace weft::exec {

// Returns the noise level of a sample, in [0, diffusion_steps). `diffusion_steps` is from 1 to 2^20.
int64_t TimestepOfSample(uint64_t seed, int64_t sample, int64_t diffusion_steps);

// Fills `out` with elements [first, first + out.size()) of a sample's noise, normal with mean 0 and variance 1. The
// index of an element is position * channels + channel.
void NoiseOfSample(uint64_t seed, int64_t sample, int64_t first, absl::Span<double> out);

// Returns the share of an image's variance that is left at a level (alpha-bar of Ho et al. 2020). Linear schedule:
// betas from 1e-4 to 0.02, times 1000 / diffusion_steps, so that the total noise is about the same for any number of
// levels (Nichol and Dhariwal 2021, arXiv:2102.09672). Cosine schedule: eq. 17 of that paper. In both, a beta is at
// most 0.999.
double SignalLevel(int64_t diffusion_steps, bool cosine_schedule, int64_t timestep);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_NUMERICS_DIFFUSION_H_
