// Modules of compiled kernels, and their launches.
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../device/services.h"
#include "captures.h"
#include "counters.h"
#include "devices.h"
#include "faults.h"
#include "fibers.h"
#include "streams.h"

namespace softgpu {
namespace {

const unsigned kMostThreads = 1024;
const size_t kMostArguments = 32764;       // bytes
const size_t kMostShared = 227 << 10;      // bytes
const unsigned kMostRows = 65535;          // of the second and third dim of a grid
const unsigned char kPoison = 0xA5;

unsigned long long lanes[kMostThreads];
alignas(128) unsigned char dynamic_shared[kMostShared];

void fail_with(int error) { fail(static_cast<cudaError_t>(error)); }

const SoftGpuServices services = {wait_for_block, wait_for_warp, fail_with, lanes, dynamic_shared};

// Loads a shared object from memory, by way of a file that is gone at once.
void* load(const char* data, size_t nbytes) {
  char path[] = "/dev/shm/softgpu-module-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return nullptr;
  size_t written = 0;
  while (written < nbytes) {
    const ssize_t n = write(file, data + written, nbytes - written);
    if (n <= 0) break;
    written += n;
  }
  close(file);
  void* made = written == nbytes ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!made) fprintf(stderr, "softgpu: %s\n", written == nbytes ? dlerror() : "/dev/shm is full");
  unlink(path);
  return made;
}

// A launch: the kernel, its grid, and a copy of its arguments.
struct Launch {
  const SoftGpuKernel* kernel;
  SoftGpuDim grid, block;
  size_t shared;
  std::vector<char> values = {};
  std::vector<size_t> offsets = {};

  void copy_arguments(void** from) {
    size_t end = 0;
    for (int n = 0; n < kernel->count; ++n) {
      offsets.push_back(end);
      end += (kernel->sizes[n] + 15) / 16 * 16;
    }
    values.resize(end);
    for (int n = 0; n < kernel->count; ++n)
      memcpy(values.data() + offsets[n], from[n], kernel->sizes[n]);
  }

  void run() {
    std::vector<void*> arguments;
    for (size_t offset : offsets) arguments.push_back(values.data() + offset);
    SoftGpuIndices* indices = kernel->indices;
    indices->grid_dim = grid;
    indices->block_dim = block;
    memset(dynamic_shared, kPoison, shared);
    const size_t blocks = size_t(grid.x) * grid.y * grid.z;
    const bool backwards = drawn();  // blocks run in any order
    for (size_t n = 0; n < blocks; ++n) {
      const size_t at = backwards ? blocks - 1 - n : n;
      indices->block = {unsigned(at % grid.x), unsigned(at / grid.x % grid.y),
                        unsigned(at / grid.x / grid.y)};
      run_block(kernel, arguments.data());
    }
  }
};

cudaError_t launch(CUfunction function, SoftGpuDim grid, SoftGpuDim block, size_t shared,
                   CUstream to, void** arguments) {
  auto* kernel = reinterpret_cast<const SoftGpuKernel*>(function);
  Stream* stream = stream_of(reinterpret_cast<cudaStream_t>(to));
  if (stream->device != current_device().ordinal) return cudaErrorInvalidResourceHandle;
  const size_t threads = size_t(block.x) * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || grid.y > kMostRows || grid.z > kMostRows || !threads ||
      threads > kMostThreads || shared > kMostShared)
    return cudaErrorInvalidValue;
  auto made = std::make_shared<Launch>(Launch{kernel, grid, block, shared});
  made->copy_arguments(arguments);
  if (made->values.size() > kMostArguments) return cudaErrorInvalidValue;
  if (cudaError_t error = may_give(stream)) return error;
  if (!captured(stream, nullptr)) ++counters.launches;
  give(stream, {[made] { made->run(); }});
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT CUresult cuModuleLoadData(CUmodule* made, const void* data) {
  return driver_call([&] {
    SoftGpuImage image;
    memcpy(&image, data, sizeof image);
    if (memcmp(image.magic, SOFTGPU_MAGIC, sizeof image.magic)) return cudaErrorInvalidKernelImage;
    void* library = load(static_cast<const char*>(data) + sizeof image, image.nbytes);
    if (!library) return cudaErrorInvalidKernelImage;
    auto** own = static_cast<const SoftGpuServices**>(dlsym(library, "softgpu_services"));
    if (!own) return cudaErrorInvalidKernelImage;
    *own = &services;
    ++counters.modules_loaded;
    *made = static_cast<CUmodule>(library);
    return cudaSuccess;
  });
}

// Images stay, as work that was given may still run them.
SOFTGPU_EXPORT CUresult cuModuleUnload(CUmodule) {
  return driver_call([] { return cudaSuccess; });
}

SOFTGPU_EXPORT CUresult cuModuleGetFunction(CUfunction* found, CUmodule module, const char* name) {
  return driver_call([&] {
    const std::string symbol = std::string("softgpu_kernel_") + name;
    void* kernel = dlsym(module, symbol.c_str());
    if (!kernel) return cudaErrorSymbolNotFound;
    *found = static_cast<CUfunction>(kernel);
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                       unsigned grid_z, unsigned block_x, unsigned block_y,
                                       unsigned block_z, unsigned shared, CUstream stream,
                                       void** arguments, void**) {
  return driver_call([&] {
    return launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream,
                  arguments);
  });
}

// Blocks run one after the other: a grid whose blocks wait for each other needs to be one block.
SOFTGPU_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                                  unsigned grid_y, unsigned grid_z,
                                                  unsigned block_x, unsigned block_y,
                                                  unsigned block_z, unsigned shared,
                                                  CUstream stream, void** arguments) {
  return driver_call([&] {
    if (size_t(grid_x) * grid_y * grid_z != 1) return cudaErrorCooperativeLaunchTooLarge;
    return launch(function, {1, 1, 1}, {block_x, block_y, block_z}, shared, stream, arguments);
  });
}

SOFTGPU_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
  return driver_call([&] {
    switch (which) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kMostThreads; break;
      case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
      default: *value = 0;
    }
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return driver_call([] { return cudaSuccess; });
}

SOFTGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction,
                                                                    int threads, size_t) {
  return driver_call([&] {
    *blocks = 2048 / threads;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction,
                                                         CUoccupancyB2DSize, size_t, int) {
  return driver_call([&] {
    *grid = 264;
    *block = kMostThreads;
    return cudaSuccess;
  });
}
