// Messages between GPUs, as NCCL sends them: by a kernel on each GPU that takes part.
//
// That of a GPU begins when its streams that take part have come so far, and holds them until it
// ends. A message is written when the kernels of both GPUs have begun. It is read then, too, or,
// if the seed says so, as soon as its sender's has.
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "counters.h"
#include "devices.h"
#include "memory.h"
#include "streams.h"

namespace softgpu {
namespace {

struct Message {
  void* receiver;  // streams
  void* sender;
  char* to;
  const char* from;
  size_t nbytes;
};

struct Kernel {
  std::map<Stream*, Point> begun = {};
  std::vector<Point> sent_and_received = {};

  std::vector<Point> start() const {
    std::vector<Point> points;
    for (auto& [stream, point] : begun) points.push_back(point);
    return points;
  }
};

bool is_on(int ordinal, const void* start, size_t nbytes) {
  const Place place = find_place(start);
  return place.kind == Kind::kDevice && place.device == ordinal && place.holds(start, nbytes);
}

Stream* stream(void* handle) { return stream_of(static_cast<cudaStream_t>(handle)); }

cudaError_t exchange(const Message* messages, size_t count) {
  for (size_t n = 0; n < count; ++n) {
    const Message& one = messages[n];
    if (!is_on(stream(one.receiver)->device, one.to, one.nbytes)) return cudaErrorInvalidValue;
    if (!is_on(stream(one.sender)->device, one.from, one.nbytes)) return cudaErrorInvalidValue;
  }
  std::map<int, Kernel> kernels;
  for (size_t n = 0; n < count; ++n)
    for (void* handle : {messages[n].sender, messages[n].receiver}) {
      Stream* own = stream(handle);
      auto& begun = kernels[own->device].begun;
      if (!begun.count(own)) begun[own] = give(own, {[] {}});
    }
  std::vector<std::shared_ptr<std::vector<char>>> early(count);
  for (size_t n = 0; n < count; ++n) {
    const Message one = messages[n];
    if (!drawn()) continue;
    auto buffer = early[n] = std::make_shared<std::vector<char>>(one.nbytes);
    Kernel& own = kernels[stream(one.sender)->device];
    Stream* sender = stream(one.sender);
    const Point read = give(
        sender, {[=] { memcpy(buffer->data(), one.from, one.nbytes); }, Reach::kPeers, own.start()});
    own.begun[sender] = read;
  }
  for (size_t n = 0; n < count; ++n) {
    const Message one = messages[n];
    ++counters.messages;
    counters.bytes_of_messages += one.nbytes;
    Kernel& from = kernels[stream(one.sender)->device];
    Kernel& to = kernels[stream(one.receiver)->device];
    std::vector<Point> after = from.start();
    for (const Point& point : to.start()) after.push_back(point);
    auto buffer = early[n];
    const Point written = give(stream(one.receiver), {[=] {
                                 memcpy(one.to, buffer ? buffer->data() : one.from, one.nbytes);
                               },
                                                      Reach::kAll, after});
    from.sent_and_received.push_back(written);
    to.sent_and_received.push_back(written);
  }
  for (auto& [ordinal, kernel] : kernels)
    for (auto& [own, begun] : kernel.begun)
      give(own, {[] {}, Reach::kPeers, kernel.sent_and_received});
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT int softgpu_exchange(const void* messages, size_t count) {
  return call([&] { return exchange(static_cast<const Message*>(messages), count); });
}

// Gives a stream a kernel that waits for others which never come.
SOFTGPU_EXPORT void softgpu_stall(void* handle) {
  call([&] {
    give(stream(handle), {[] {}, Reach::kPeers, {never()}});
    return cudaSuccess;
  });
}

// Ends such kernels.
SOFTGPU_EXPORT void softgpu_abort_stalls() { give_up_waiting(); }

SOFTGPU_EXPORT void softgpu_count_communicators(int made, int released) {
  counters.communicators_made += made;
  counters.communicators_released += released;
}
