// What the process has asked of CUDA so far, for tests and benchmarks.
#pragma once
#include <atomic>
#include <cstdint>

// The names as Python sees them; each is a field of Counters.
#define SOFTGPU_COUNTERS(X)                                                                        \
  X(launches)                                                                                      \
  X(graph_launches)                                                                                \
  X(graph_nodes)                                                                                   \
  X(graphs_captured)                                                                               \
  X(graphs_instantiated)                                                                           \
  X(graphs_released)                                                                               \
  X(library_calls)                                                                                 \
  X(memsets)                                                                                       \
  X(copies_host_to_device)                                                                         \
  X(copies_device_to_host)                                                                         \
  X(copies_on_device)                                                                              \
  X(copies_between_devices)                                                                        \
  X(copies_on_host)                                                                                \
  X(bytes_host_to_device)                                                                          \
  X(bytes_device_to_host)                                                                          \
  X(bytes_on_device)                                                                               \
  X(bytes_between_devices)                                                                         \
  X(bytes_on_host)                                                                                 \
  X(messages)                                                                                      \
  X(bytes_of_messages)                                                                             \
  X(communicators_made)                                                                            \
  X(communicators_released)                                                                        \
  X(events_created)                                                                                \
  X(events_recorded)                                                                               \
  X(events_waited)                                                                                 \
  X(events_queried)                                                                                \
  X(streams_created)                                                                               \
  X(device_allocations)                                                                            \
  X(device_frees)                                                                                  \
  X(device_bytes)                                                                                  \
  X(host_allocations)                                                                              \
  X(host_frees)                                                                                    \
  X(host_waits)                                                                                    \
  X(modules_loaded)                                                                                \
  X(calls)                                                                                         \
  X(driver_ns)

namespace softgpu {

struct Counters {
#define X(name) std::atomic<uint64_t> name{0};
  SOFTGPU_COUNTERS(X)
#undef X
};

extern Counters counters;

}  // namespace softgpu
