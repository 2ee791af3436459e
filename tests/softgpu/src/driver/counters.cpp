#include "counters.h"

#include "api.h"

namespace softgpu {

Counters counters;

}  // namespace softgpu

// The names of all counters, separated by spaces, in the order of softgpu_counters.
SOFTGPU_EXPORT const char* softgpu_counter_names() {
#define X(name) #name " "
  return SOFTGPU_COUNTERS(X);
#undef X
}

SOFTGPU_EXPORT void softgpu_counters(uint64_t* values) {
#define X(name) *values++ = softgpu::counters.name.load(std::memory_order_relaxed);
  SOFTGPU_COUNTERS(X)
#undef X
}
