// The part of CUDA's header of this name that the kernels use, for the CPU.
#pragma once

struct __half {
  _Float16 value;
};

inline float __half2float(__half a) { return static_cast<float>(a.value); }
inline __half __float2half_rn(float a) { return {static_cast<_Float16>(a)}; }
