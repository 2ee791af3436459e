// What the libraries beside the driver have in common.
#pragma once
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#define SOFTGPU_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" void softgpu_give(void* stream, void (*function)(void*), void* data);

namespace softgpu {

// Gives a stream a function to run.
inline void give(void* stream, std::function<void()> function) {
  auto* kept = new std::function<void()>(std::move(function));
  softgpu_give(
      stream,
      [](void* data) {
        auto* found = static_cast<std::function<void()>*>(data);
        (*found)();
        delete found;
      },
      kept);
}

using Half = _Float16;

// The upper half of a float; numbers are rounded to the nearest, ties to even.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t all;
    memcpy(&all, &value, sizeof all);
    if (value == value) all += 0x7fff + (all >> 16 & 1);
    bits = all >> 16 | (value != value ? 0x40 : 0);
  }
  operator float() const {
    const uint32_t all = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &all, sizeof value);
    return value;
  }
};

}  // namespace softgpu
