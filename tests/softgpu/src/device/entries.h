// How the driver finds and starts the kernels of an image.
#pragma once
#pragma GCC system_header
#include "threads.h"

namespace softgpu_device {

template <class T>
struct Value {
  using Type = T;
};
template <class T>
struct Value<T&> : Value<T> {};

template <size_t... n>
struct Numbers {};

template <auto kernel>
struct Entry;

template <class... Arguments, void (*kernel)(Arguments...)>
struct Entry<kernel> {
  static constexpr size_t sizes[sizeof...(Arguments) + 1] = {sizeof(Arguments)..., 0};

  template <size_t... n>
  static void call(void** arguments, Numbers<n...>) {
    kernel(*reinterpret_cast<typename Value<Arguments>::Type*>(arguments[n])...);
  }

  static void thread(void** arguments) {
    call(arguments, Numbers<__integer_pack(sizeof...(Arguments))...>{});
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
