// Precompiled: what is included before every kernel, and what nearly all kernels of CuPy include.
#pragma once
#include "softcuda.h"

#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
#include "cupy/float16.cuh"
