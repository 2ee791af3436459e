// Lets a CUDA kernel's source run on the CPU: one thread of the host per CUDA thread, block after
// block, so that sanitizers see what a GPU would do.
#pragma once
#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static

struct Dim3 {
  unsigned x = 0, y = 0, z = 0;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};

inline thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;
inline std::barrier<>* shim_barrier = nullptr;

inline void __syncthreads() { shim_barrier->arrive_and_wait(); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32);
}

inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= (both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  }
  return result;
}
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }

template <typename Kernel>
void shim_launch(unsigned blocks, unsigned threads, const Kernel& kernel) {
  std::barrier<> barrier(threads);
  shim_barrier = &barrier;
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; ++t) {
    team.emplace_back([&, t] {
      threadIdx = {t}, blockDim = {threads}, gridDim = {blocks};
      for (unsigned b = 0; b < blocks; ++b) {
        blockIdx = {b};
        kernel();
        barrier.arrive_and_wait();
      }
    });
  }
  for (auto& thread : team) thread.join();
}

// The same for a kernel without barriers and shared memory, whose threads need not wait for each
// other: a few threads of the host share them. Neighbours, also those of neighbouring blocks, go
// to different ones, so that a sanitizer sees their races.
template <typename Kernel>
void shim_launch_apart(unsigned blocks, unsigned threads, const Kernel& kernel) {
  constexpr unsigned kTeam = 3;
  shim_barrier = nullptr;
  std::vector<std::thread> team;
  for (unsigned member = 0; member < kTeam; ++member) {
    team.emplace_back([&, member] {
      blockDim = {threads}, gridDim = {blocks};
      for (unsigned b = 0; b < blocks; ++b) {
        blockIdx = {b};
        for (unsigned t = (member + b) % kTeam; t < threads; t += kTeam) {
          threadIdx = {t};
          kernel();
        }
      }
    });
  }
  for (auto& thread : team) thread.join();
}
