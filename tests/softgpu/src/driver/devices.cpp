#include "devices.h"

#include <cstdio>
#include <cstring>
#include <memory>

#include "captures.h"
#include "guard.h"
#include "memory.h"
#include "settings.h"
#include "streams.h"

namespace softgpu {
namespace {

const int kCudaVersion = 1000 * SOFTGPU_CUDA_MAJOR + 10 * SOFTGPU_CUDA_MINOR;
const int kMultiprocessors = 132;

thread_local int current = 0;

// Never taken apart: streams may be used until the very end of a process.
std::vector<std::unique_ptr<Device>>& devices() {
  static auto* made = new std::vector<std::unique_ptr<Device>>;
  return *made;
}

bool exists(int ordinal) { return ordinal >= 0 && ordinal < device_count(); }

void bus_id(char* text, size_t size, int ordinal) {
  snprintf(text, size, "0000:%02x:00.0", ordinal + 1);
}

}  // namespace

void make_devices() {
  const int count = settings().devices;
  for (int n = 0; n < count; ++n) {
    devices().push_back(std::make_unique<Device>(n, count));
    devices()[n]->key = guard_key(n);
    devices()[n]->legacy = make_stream(n, /*blocking=*/true);
  }
}

int device_count() { return static_cast<int>(devices().size()); }

Device& device(int ordinal) { return *devices()[ordinal]; }

Device& current_device() { return *devices()[current]; }

}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return cudaSuccess;
}

SOFTGPU_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kCudaVersion;
  return cudaSuccess;
}

SOFTGPU_EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  return query([&] {
    *count = device_count();
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaGetDevice(int* ordinal) {
  return query([&] {
    *ordinal = current;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaSetDevice(int ordinal) {
  return query([&] {
    if (!exists(ordinal)) return cudaErrorInvalidDevice;
    current = ordinal;
    return device(ordinal).lost.load();
  });
}

SOFTGPU_EXPORT cudaError_t cudaDeviceSynchronize() {
  return call([] {
    if (cudaError_t error = may_call()) return error;
    wait_for_device(current);
    return current_device().lost.load();
  });
}

SOFTGPU_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int ordinal) {
  return query([&] {
    if (!exists(ordinal)) return cudaErrorInvalidDevice;
    switch (static_cast<int>(which)) {
      case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
      case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
      case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
      case cudaDevAttrMaxBlockDimX: *value = 1024; break;
      case cudaDevAttrMaxBlockDimY: *value = 1024; break;
      case cudaDevAttrMaxBlockDimZ: *value = 64; break;
      case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
      case cudaDevAttrMaxGridDimY: *value = 65535; break;
      case cudaDevAttrMaxGridDimZ: *value = 65535; break;
      case cudaDevAttrWarpSize: *value = 32; break;
      case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
      case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
      case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
      case cudaDevAttrUnifiedAddressing: *value = 1; break;
      default: *value = 0;  // among them pools of memory, which there are none of
    }
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* found, int ordinal) {
  return query([&] {
    if (!exists(ordinal)) return cudaErrorInvalidDevice;
    memset(found, 0, sizeof *found);
    snprintf(found->name, sizeof found->name, "Software GPU");
    memcpy(found->uuid.bytes, "softgpu", 7);
    found->uuid.bytes[15] = static_cast<char>(ordinal);
    found->totalGlobalMem = settings().memory;
    found->sharedMemPerBlock = 48 << 10;
    found->sharedMemPerBlockOptin = 227 << 10;
    found->warpSize = 32;
    found->maxThreadsPerBlock = 1024;
    found->maxThreadsPerMultiProcessor = 2048;
    found->major = 9;
    found->multiProcessorCount = kMultiprocessors;
    found->unifiedAddressing = 1;
    found->canMapHostMemory = 1;
    found->pciBusID = ordinal + 1;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int ordinal) {
  return cudaGetDeviceProperties_v2(found, ordinal);
}

SOFTGPU_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int ordinal) {
  return query([&] {
    if (!exists(ordinal)) return cudaErrorInvalidDevice;
    bus_id(text, size, ordinal);
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* ordinal, const char* text) {
  return query([&] {
    for (int n = 0; n < device_count(); ++n) {
      char own[32];
      bus_id(own, sizeof own, n);
      if (strcmp(own, text) == 0) {
        *ordinal = n;
        return cudaSuccess;
      }
    }
    return cudaErrorInvalidValue;
  });
}

SOFTGPU_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  return query([&] {
    if (!exists(ordinal) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = settings().peers && ordinal != peer;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call([&] {
    if (!exists(peer) || peer == current) return cudaErrorInvalidDevice;
    if (!settings().peers) return cudaErrorPeerAccessUnsupported;
    const bool before = current_device().reaches[peer].exchange(true);
    return before ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call([&] {
    if (!exists(peer)) return cudaErrorInvalidDevice;
    const bool before = current_device().reaches[peer].exchange(false);
    return before ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

// A context is a device's primary one, and its handle the device's number after 0.
SOFTGPU_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  return driver_call([&] {
    *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(current + 1));
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_call([&] {
    const int ordinal = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
    if (!exists(ordinal)) return cudaErrorInvalidDevice;
    current = ordinal;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT CUresult cuCtxGetDevice(CUdevice* ordinal) {
  return driver_call([&] {
    *ordinal = current;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
