// Who a thread is, and how threads wait for each other and exchange values.
#pragma once
#pragma GCC system_header
#include "services.h"

extern "C" {
__attribute__((visibility("default"), weak)) const SoftGpuServices* softgpu_services;
}
__attribute__((visibility("hidden"), weak)) SoftGpuIndices softgpu_indices;

#define threadIdx softgpu_indices.thread
#define blockIdx softgpu_indices.block
#define blockDim softgpu_indices.block_dim
#define gridDim softgpu_indices.grid_dim

static constexpr int warpSize = 32;

inline void __syncthreads() { softgpu_services->wait_for_block(); }
inline void __syncwarp(unsigned = 0xffffffffu) { softgpu_services->wait_for_warp(); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void softgpu_fail(int error) {
  softgpu_services->fail(error);
  __builtin_unreachable();
}
inline void __trap() { softgpu_fail(719); }

// What glibc's assert calls, however often its header is included.
#define __assert_fail(...) softgpu_fail(710)

namespace softgpu_device {

inline unsigned linear_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

inline unsigned threads() { return blockDim.x * blockDim.y * blockDim.z; }

inline unsigned lane() { return linear_thread() % warpSize; }

// The value that a lane of the same warp puts in.
template <class T>
inline T exchange(T value, unsigned from) {
  static_assert(sizeof(T) <= 8, "lanes exchange 8 bytes at most");
  unsigned long long* lanes = softgpu_services->lanes;
  const unsigned me = linear_thread();
  unsigned long long word = 0;
  memcpy(&word, &value, sizeof(T));
  lanes[me] = word;
  __syncwarp();
  word = lanes[me / warpSize * warpSize + from];
  __syncwarp();  // before anybody puts in the next one
  T result;
  memcpy((void*)&result, &word, sizeof(T));
  return result;
}

}  // namespace softgpu_device

template <class T>
inline T __shfl_sync(unsigned, T value, int from, int width = 32) {
  const unsigned first = softgpu_device::lane() / width * width;
  return softgpu_device::exchange(value, first + (from & (width - 1)));
}

template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  const unsigned me = softgpu_device::lane(), from = me ^ mask;
  return softgpu_device::exchange(value, from / width == me / width ? from : me);
}

template <class T>
inline T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32) {
  const unsigned me = softgpu_device::lane(), from = me + delta;
  return softgpu_device::exchange(value, from / width == me / width ? from : me);
}

template <class T>
inline T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32) {
  const unsigned me = softgpu_device::lane();
  return softgpu_device::exchange(value, me % width >= delta ? me - delta : me);
}

inline unsigned __ballot_sync(unsigned, int predicate) {
  const unsigned me = softgpu_device::linear_thread(), first = me / warpSize * warpSize;
  unsigned long long* lanes = softgpu_services->lanes;
  lanes[me] = predicate != 0;
  __syncwarp();
  unsigned result = 0;
  for (unsigned n = 0; n < warpSize && first + n < softgpu_device::threads(); ++n)
    result |= unsigned(lanes[first + n]) << n;
  __syncwarp();
  return result;
}

inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

inline int __syncthreads_or(int predicate) {
  unsigned long long* lanes = softgpu_services->lanes;
  lanes[softgpu_device::linear_thread()] = predicate != 0;
  __syncthreads();
  int result = 0;
  for (unsigned n = 0; n < softgpu_device::threads(); ++n) result |= lanes[n] != 0;
  __syncthreads();
  return result;
}
inline int __syncthreads_and(int predicate) { return !__syncthreads_or(!predicate); }

// Each call takes a while, so that a kernel which waits for a time ends soon.
inline long long clock64() {
  static long long now = 0;
  return now += 1 << 20;
}
