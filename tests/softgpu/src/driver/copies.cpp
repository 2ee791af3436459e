// Copies and fills of memory, in stream order.
#include <cstring>
#include <memory>
#include <vector>

#include "captures.h"
#include "counters.h"
#include "devices.h"
#include "memory.h"
#include "streams.h"

namespace softgpu {
namespace {

// So many rows of bytes; a plain copy is one row.
struct Copy {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch;
  size_t width;
  size_t height;

  size_t extent(size_t pitch) const { return (height - 1) * pitch + width; }
  void run() const {
    for (size_t n = 0; n < height; ++n) memmove(to + n * to_pitch, from + n * from_pitch, width);
  }
};

bool on_device(const Place& place) {
  return place.kind == Kind::kDevice || place.kind == Kind::kManaged;
}

bool is(const Place& place, bool device) {
  return place.kind == Kind::kManaged || on_device(place) == device;
}

bool fits(cudaMemcpyKind kind, const Place& to, const Place& from) {
  switch (kind) {
    case cudaMemcpyHostToHost: return is(from, false) && is(to, false);
    case cudaMemcpyHostToDevice: return is(from, false) && is(to, true);
    case cudaMemcpyDeviceToHost: return is(from, true) && is(to, false);
    case cudaMemcpyDeviceToDevice: return is(from, true) && is(to, true);
    default: return true;
  }
}

void count(const Place& to, const Place& from, size_t nbytes) {
  if (on_device(to) && on_device(from)) {
    const bool one = to.device == from.device;
    ++(one ? counters.copies_on_device : counters.copies_between_devices);
    (one ? counters.bytes_on_device : counters.bytes_between_devices) += nbytes;
  } else if (on_device(to)) {
    ++counters.copies_host_to_device;
    counters.bytes_host_to_device += nbytes;
  } else if (on_device(from)) {
    ++counters.copies_device_to_host;
    counters.bytes_device_to_host += nbytes;
  } else {
    ++counters.copies_on_host;
    counters.bytes_on_host += nbytes;
  }
}

// Pageable memory is read before the call returns, and has been written when it does.
cudaError_t copy(Copy made, cudaMemcpyKind kind, cudaStream_t handle, bool wait) {
  if (!made.width || !made.height) return cudaSuccess;
  const Place to = find_place(made.to), from = find_place(made.from);
  if (!to.holds(made.to, made.extent(made.to_pitch))) return cudaErrorInvalidValue;
  if (!from.holds(made.from, made.extent(made.from_pitch))) return cudaErrorInvalidValue;
  if (!fits(kind, to, from)) return cudaErrorInvalidValue;
  Stream* stream = stream_of(handle);
  if (cudaError_t error = wait ? may_wait(stream) : may_give(stream)) return error;
  std::function<void()> work = [made] { made.run(); };
  if (captured(stream, nullptr)) {  // memory is read, and written, when the graph runs
    give(stream, {work, Reach::kAll});
    return cudaSuccess;
  }
  count(to, from, made.width * made.height);
  if (from.kind == Kind::kPageable) {
    auto staged = std::make_shared<std::vector<char>>(made.extent(made.from_pitch));
    Copy aside = made;
    aside.to = staged->data();
    aside.to_pitch = made.from_pitch;
    aside.run();
    made.from = staged->data();
    work = [made, staged] { made.run(); };
  }
  const Point end = give(stream, {work, Reach::kAll});
  if (wait || to.kind == Kind::kPageable) wait_for(end);
  return wait ? device(stream->device).lost.load() : cudaSuccess;
}

cudaError_t copy_row(void* to, const void* from, size_t nbytes, cudaMemcpyKind kind,
                     cudaStream_t handle, bool wait) {
  auto* source = static_cast<const char*>(from);
  return copy({static_cast<char*>(to), nbytes, source, nbytes, nbytes, 1}, kind, handle, wait);
}

cudaError_t fill(void* start, int value, size_t nbytes, cudaStream_t handle) {
  if (!nbytes) return cudaSuccess;
  const Place place = find_place(start);
  if (place.kind == Kind::kPageable || !place.holds(start, nbytes)) return cudaErrorInvalidValue;
  Stream* stream = stream_of(handle);
  if (cudaError_t error = may_give(stream)) return error;
  if (!captured(stream, nullptr)) ++counters.memsets;
  give(stream, {[=] { memset(start, value, nbytes); }});
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t nbytes,
                                      cudaMemcpyKind kind) {
  return call([&] { return copy_row(to, from, nbytes, kind, nullptr, true); });
}

SOFTGPU_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t nbytes,
                                           cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return copy_row(to, from, nbytes, kind, stream, false); });
}

SOFTGPU_EXPORT cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t nbytes) {
  return call([&] { return copy_row(to, from, nbytes, cudaMemcpyDeviceToDevice, nullptr, true); });
}

SOFTGPU_EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t nbytes,
                                               cudaStream_t stream) {
  return call([&] { return copy_row(to, from, nbytes, cudaMemcpyDeviceToDevice, stream, false); });
}

SOFTGPU_EXPORT cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from,
                                        size_t from_pitch, size_t width, size_t height,
                                        cudaMemcpyKind kind) {
  return call([&] {
    auto* source = static_cast<const char*>(from);
    const Copy made{static_cast<char*>(to), to_pitch, source, from_pitch, width, height};
    return copy(made, kind, nullptr, true);
  });
}

SOFTGPU_EXPORT cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                             size_t from_pitch, size_t width, size_t height,
                                             cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] {
    auto* source = static_cast<const char*>(from);
    const Copy made{static_cast<char*>(to), to_pitch, source, from_pitch, width, height};
    return copy(made, kind, stream, false);
  });
}

SOFTGPU_EXPORT cudaError_t cudaMemset(void* start, int value, size_t nbytes) {
  return call([&] { return fill(start, value, nbytes, nullptr); });
}

SOFTGPU_EXPORT cudaError_t cudaMemsetAsync(void* start, int value, size_t nbytes,
                                           cudaStream_t stream) {
  return call([&] { return fill(start, value, nbytes, stream); });
}
