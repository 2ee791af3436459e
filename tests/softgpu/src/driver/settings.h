// What the environment asks for, read once when CUDA is used first.
#pragma once
#include <cstddef>
#include <cstdint>

namespace softgpu {

struct Settings {
  // SOFTGPU_DEVICES: how many GPUs there are.
  int devices;
  // SOFTGPU_MEMORY: bytes of memory of each.
  size_t memory;
  // SOFTGPU_SEED: with one, work runs late and in an order drawn from it; without, at once.
  bool seeded;
  uint64_t seed;
  // SOFTGPU_PEERS: 0 if no GPU can reach another's memory.
  bool peers;
  // SOFTGPU_GUARD: 0 if the host may touch device memory unnoticed even where the CPU can tell.
  bool guard;
};

const Settings& settings();

}  // namespace softgpu
