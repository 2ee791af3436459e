// Every allocation ends just before a page that nobody may touch, as far as alignment allows, and
// its addresses never come again: what is written past the end or used after it was freed is found.
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "captures.h"
#include "counters.h"
#include "devices.h"
#include "guard.h"
#include "settings.h"
#include "streams.h"

namespace softgpu {
namespace {

const size_t kPage = 4096;
const size_t kAlignment = 256;            // what cudaMalloc promises
const unsigned char kPoison = 0xA5;       // what new memory holds
const size_t kMostPoison = 64 << 20;      // more takes too long
const size_t kAddresses = size_t(16) << 40;  // reserved for all allocations of a process

struct Allocation {
  size_t nbytes;
  Kind kind;
  int device;
};

size_t up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

std::mutex lock;

std::map<uintptr_t, Allocation>& allocations() {
  static auto* made = new std::map<uintptr_t, Allocation>;
  return *made;
}

// A range of addresses that were never used before, with a page after it that cannot be used.
char* reserve(size_t pages) {
  static char* next = nullptr;
  static char* end = nullptr;
  if (!next) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* all = mmap(nullptr, kAddresses, PROT_NONE, flags, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    next = static_cast<char*>(all);
    end = next + kAddresses;
  }
  if (pages + kPage > static_cast<size_t>(end - next)) return nullptr;
  char* start = next;
  next += pages + kPage;
  return start;
}

// Lets the system take the pages back, and keeps the addresses.
void give_back(char* start, size_t pages) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  mmap(start, pages, PROT_NONE, flags, -1, 0);
}

bool is_host(Kind kind) { return kind == Kind::kPinned; }

}  // namespace

Place find_place(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::lock_guard held(lock);
  auto after = allocations().upper_bound(at);
  if (after == allocations().begin()) return {};
  const auto& [start, found] = *std::prev(after);
  if (at >= start + std::max<size_t>(found.nbytes, 1)) return {};
  return {found.kind, found.device, start, found.nbytes};
}

cudaError_t allocate(void** start, size_t nbytes, Kind kind, int ordinal) {
  *start = nullptr;
  ++(is_host(kind) ? counters.host_allocations : counters.device_allocations);
  if (nbytes == 0) return cudaSuccess;
  std::lock_guard held(lock);
  Device& owner = device(ordinal);
  if (kind == Kind::kDevice && nbytes > settings().memory - owner.used)
    return cudaErrorMemoryAllocation;
  const size_t body = up(nbytes, kAlignment);
  const size_t pages = up(body, kPage);
  char* first = reserve(pages);
  if (!first) return cudaErrorMemoryAllocation;
  open_memory(first, pages, kind == Kind::kDevice ? owner.key : 0);
  char* made = first + (pages - body);
  {
    Access access(&owner, Reach::kAll);
    if (body <= kMostPoison)
      memset(made, kPoison, body);
    else
      memset(made + nbytes, kPoison, body - nbytes);
  }
  allocations()[reinterpret_cast<uintptr_t>(made)] = {nbytes, kind, ordinal};
  if (kind == Kind::kDevice) {
    owner.used += nbytes;
    counters.device_bytes += nbytes;
  }
  *start = made;
  return cudaSuccess;
}

cudaError_t release(void* start, Kind kind) {
  if (!start) return cudaSuccess;
  std::lock_guard held(lock);
  auto found = allocations().find(reinterpret_cast<uintptr_t>(start));
  if (found == allocations().end()) return cudaErrorInvalidValue;
  const Allocation gone = found->second;
  if (is_host(gone.kind) != is_host(kind)) return cudaErrorInvalidValue;
  allocations().erase(found);
  ++(is_host(kind) ? counters.host_frees : counters.device_frees);
  Device& owner = device(gone.device);
  if (gone.kind == Kind::kDevice) owner.used -= gone.nbytes;
  const size_t body = up(gone.nbytes, kAlignment);
  const size_t pages = up(body, kPage);
  bool damaged = false;
  {
    Access access(&owner, Reach::kAll);
    const auto* bytes = static_cast<unsigned char*>(start);
    for (size_t n = gone.nbytes; n < body; ++n) damaged |= bytes[n] != kPoison;
  }
  give_back(static_cast<char*>(start) + body - pages, pages);
  if (damaged) {
    fprintf(stderr, "softgpu: something wrote beyond the end of %zu bytes at %p\n", gone.nbytes,
            start);
    cudaError_t works = cudaSuccess;
    owner.lost.compare_exchange_strong(works, cudaErrorIllegalAddress);
    return cudaErrorIllegalAddress;
  }
  return cudaSuccess;
}

}  // namespace softgpu

using namespace softgpu;

namespace {

cudaError_t allocate_now(void** start, size_t nbytes, Kind kind) {
  if (cudaError_t error = may_call()) return error;
  return allocate(start, nbytes, kind, current_device().ordinal);
}

}  // namespace

SOFTGPU_EXPORT cudaError_t cudaMalloc(void** start, size_t nbytes) {
  return call([&] { return allocate_now(start, nbytes, Kind::kDevice); });
}

SOFTGPU_EXPORT cudaError_t cudaMallocManaged(void** start, size_t nbytes, unsigned) {
  return call([&] { return allocate_now(start, nbytes, Kind::kManaged); });
}

SOFTGPU_EXPORT cudaError_t cudaHostAlloc(void** start, size_t nbytes, unsigned) {
  return call([&] { return allocate_now(start, nbytes, Kind::kPinned); });
}

// Freeing waits for everything, as CUDA does.
SOFTGPU_EXPORT cudaError_t cudaFree(void* start) {
  return call([&] {
    if (!start) return cudaSuccess;
    if (cudaError_t error = may_call()) return error;
    for (int n = 0; n < device_count(); ++n) drain_device(n);
    return release(start, Kind::kDevice);
  });
}

SOFTGPU_EXPORT cudaError_t cudaFreeHost(void* start) {
  return call([&] {
    if (cudaError_t error = may_call()) return error;
    for (int n = 0; n < device_count(); ++n) drain_device(n);
    return release(start, Kind::kPinned);
  });
}

SOFTGPU_EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&] {
    std::lock_guard held(lock);
    *total = settings().memory;
    *free = *total - current_device().used;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* at) {
  return query([&] {
    const Place place = find_place(at);
    void* address = const_cast<void*>(at);
    const bool known = place.kind != Kind::kPageable;
    memset(found, 0, sizeof *found);
    found->device = known ? place.device : cudaInvalidDeviceId;
    found->devicePointer = known ? address : nullptr;
    found->hostPointer = place.kind == Kind::kDevice ? nullptr : address;
    switch (place.kind) {
      case Kind::kPageable: found->type = cudaMemoryTypeUnregistered; break;
      case Kind::kPinned: found->type = cudaMemoryTypeHost; break;
      case Kind::kDevice: found->type = cudaMemoryTypeDevice; break;
      case Kind::kManaged: found->type = cudaMemoryTypeManaged; break;
    }
    return cudaSuccess;
  });
}
