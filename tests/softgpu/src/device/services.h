// What a compiled kernel and the driver know of each other. C++ and device code include this.
#pragma once
#pragma GCC system_header
#define __need_size_t
#include <stddef.h>

struct SoftGpuDim {
  unsigned x, y, z;
};

// The built-in variables of a kernel; one thread runs at a time.
struct SoftGpuIndices {
  SoftGpuDim thread, block, block_dim, grid_dim;
};

// What the driver does for kernels.
struct SoftGpuServices {
  void (*wait_for_block)();
  void (*wait_for_warp)();
  // Ends the kernel with an error of CUDA.
  void (*fail)(int error);
  // A word for each thread of a block, for what lanes exchange.
  unsigned long long* lanes;
  // Dynamic shared memory.
  void* dynamic_shared;
};

// A kernel in an image, exported under "softgpu_kernel_" and its name.
struct SoftGpuKernel {
  // Runs one thread, which finds itself by the indices.
  void (*thread)(void** arguments);
  // Sizes of the arguments.
  const size_t* sizes;
  int count;
  SoftGpuIndices* indices;
};

// An image, as the compiler makes it and a module is loaded from: this, then a shared object that
// exports a variable "softgpu_services", which the driver sets.
struct SoftGpuImage {
  char magic[8];
  unsigned long long nbytes;
};
#define SOFTGPU_MAGIC "SOFTGPU2"
