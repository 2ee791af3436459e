// What CUDA C++ has beyond C++, for a C++ compiler; included before every kernel.
#pragma once
#include <assert.h>
#include <math.h>

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <tuple>
#include <utility>

#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9

#include <vector_types.h>
#include <vector_functions.h>

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#define __global__
#define __device__
#define __host__
#define __constant__ static
// One block runs at a time, so that all have the same.
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#include "atomics.h"
#include "entries.h"
#include "floats.h"
#include "integers.h"
#include "threads.h"
