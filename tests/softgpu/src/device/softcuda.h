// What CUDA C++ has beyond C++, for a C++ compiler; included before every kernel. As with NVRTC there
// are no headers of C or C++: what is declared here NVRTC declares, too, and there are no macros like
// M_PI, NAN or INT_MAX.
#pragma once
#pragma GCC system_header  // may use what g++ has beyond C++, which kernels may not
#include <assert.h>
#define __need_size_t
#define __need_ptrdiff_t
#define __need_NULL
#include <stddef.h>

// The runtime is the host's. Headers of CuPy include it where they find it, and with it those of C.
#define __CUDA_RUNTIME_API_H__
#define CUDART_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)

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

extern "C" {
int printf(const char*, ...);
void* malloc(size_t) noexcept;
void free(void*) noexcept;
void* memcpy(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
long clock() noexcept;
}

#include "vectors.h"

#include "atomics.h"
#include "entries.h"
#include "floats.h"
#include "integers.h"
#include "threads.h"
