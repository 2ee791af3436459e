// Allocations on GPUs and page-locked ones of the host.
#pragma once
#include <cstddef>
#include <cstdint>

#include "api.h"

namespace softgpu {

enum class Kind {
  kPageable,  // memory of the host that CUDA does not know
  kPinned,
  kDevice,
  kManaged,
};

// An address as CUDA sees it.
struct Place {
  Kind kind = Kind::kPageable;
  int device = -1;
  uintptr_t start = 0;  // of its allocation
  size_t nbytes = 0;    // of its allocation

  // Whether so many bytes from an address lie within; of pageable memory nobody knows.
  bool holds(const void* address, size_t count) const {
    if (kind == Kind::kPageable) return true;
    return reinterpret_cast<uintptr_t>(address) + count <= start + nbytes;
  }
};

Place find_place(const void* address);

cudaError_t allocate(void** start, size_t nbytes, Kind kind, int device);

// Checks that nothing was written beyond its end, and gives it back. Nobody may use it any more.
cudaError_t release(void* start, Kind kind);

}  // namespace softgpu
