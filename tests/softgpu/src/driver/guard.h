// Device memory that the host cannot touch unnoticed, by the protection keys of x86.
//
// The memory of each GPU has a key. A thread has no right to any of them, as Linux starts all
// threads, but while it runs the work of a stream: then to those that the GPU reaches. A stray
// read of the host, or of a kernel in the memory of a GPU that is no peer, is a fault.
// Where the CPU has no such keys, memory is not guarded.
#pragma once
#include <cstddef>

#include "devices.h"

namespace softgpu {

// The key for a device's memory, 0 for none.
int guard_key(int ordinal);

// Whether memory is guarded.
bool guarded();

// Makes memory of a device usable to who has the right.
void open_memory(void* start, size_t nbytes, int key);

// What the work of a stream may touch.
enum class Reach {
  kPeers,  // the memory of its GPU and of those that it was given access to, as a kernel may
  kAll,    // all, as copies may
};

// Gives the right to a thread for as long as it lives.
class Access {
 public:
  Access(const Device* device, Reach reach);
  ~Access();
  Access(const Access&) = delete;

 private:
  unsigned before_;
};

}  // namespace softgpu
