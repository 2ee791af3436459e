// The GPUs: which there are, which is current, who reaches whose memory, which were lost.
#pragma once
#include <atomic>
#include <cstddef>
#include <vector>

#include "api.h"

namespace softgpu {

struct Stream;

struct Device {
  int ordinal;
  // The protection key of its memory, 0 if it has none.
  int key = 0;
  // Bytes that are allocated; under the lock of memory.cpp.
  size_t used = 0;
  // The legacy default stream.
  Stream* legacy = nullptr;
  // Whose memory its kernels may use besides its own, by ordinal.
  std::vector<std::atomic<bool>> reaches;
  // The error after which it refuses everything, cudaSuccess while it works.
  std::atomic<cudaError_t> lost{cudaSuccess};

  Device(int number, int devices) : ordinal(number), reaches(devices) {}
};

void make_devices();
int device_count();
Device& device(int ordinal);
Device& current_device();

}  // namespace softgpu
