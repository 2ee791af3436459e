// How every entry point begins and ends: with the checks that all have in common, and a clock.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

// Names that CUDA's headers define as macros for newer versions of the same function.
#undef cudaGetDeviceProperties
#undef cudaStreamGetCaptureInfo
#undef cudaGraphInstantiate

#define SOFTGPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace softgpu {

// Counts the host's time between its making and its end, unless it is within another one.
class Clock {
 public:
  Clock();
  ~Clock();

 private:
  uint64_t start_;
};

// Makes the devices if this is the first call; what the call must return at once if it is not
// cudaSuccess: the process is a forked child, or (with `strict`) the current device was lost.
cudaError_t enter(bool strict);

// Keeps an error for cudaGetLastError, and returns it.
cudaError_t remembered(cudaError_t error);

// Runs the body of an entry point that works with the current device.
template <class Body>
cudaError_t call(Body&& body) {
  Clock clock;
  if (cudaError_t error = enter(true)) return remembered(error);
  return remembered(body());
}

// The same for what still answers after a device was lost.
template <class Body>
cudaError_t query(Body&& body) {
  Clock clock;
  if (cudaError_t error = enter(false)) return remembered(error);
  return remembered(body());
}

// Errors have the same numbers in the driver's interface as in the runtime's.
template <class Body>
CUresult driver_call(Body&& body) {
  Clock clock;
  if (cudaError_t error = enter(true)) return static_cast<CUresult>(error);
  return static_cast<CUresult>(body());
}

}  // namespace softgpu
