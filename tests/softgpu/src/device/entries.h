// How the driver finds and starts the kernels of an image.
#pragma once
#include <type_traits>
#include <utility>

#include "threads.h"

namespace softgpu_device {

template <auto kernel>
struct Entry;

template <class... Arguments, void (*kernel)(Arguments...)>
struct Entry<kernel> {
  static constexpr size_t sizes[sizeof...(Arguments) + 1] = {sizeof(Arguments)..., 0};

  template <size_t... n>
  static void call(void** arguments, std::index_sequence<n...>) {
    kernel(*reinterpret_cast<std::remove_reference_t<Arguments>*>(arguments[n])...);
  }

  static void thread(void** arguments) {
    call(arguments, std::index_sequence_for<Arguments...>{});
  }

  static constexpr int count = sizeof...(Arguments);
};

}  // namespace softgpu_device

// Exports a kernel, an expression, under a name.
#define SOFTGPU_EXPORT_KERNEL(name, ...)                                                           \
  extern "C" {                                                                                     \
  __attribute__((visibility("default"), used)) extern const SoftGpuKernel                          \
      softgpu_kernel_##name;                                                                       \
  const SoftGpuKernel softgpu_kernel_##name = {                                                    \
      &softgpu_device::Entry<&__VA_ARGS__>::thread,                                                \
      softgpu_device::Entry<&__VA_ARGS__>::sizes, softgpu_device::Entry<&__VA_ARGS__>::count,      \
      &softgpu_indices};                                                                           \
  }
