// An event is a point in a stream's order, taken when it is recorded.
#include <mutex>

#include "captures.h"
#include "counters.h"
#include "devices.h"
#include "streams.h"

namespace softgpu {
namespace {

struct Event {
  int device;
  // Where it was recorded last; a null stream if never.
  Point point{nullptr, 0};
  // If that was in a capture: which, and what comes before it.
  std::shared_ptr<Capture> capture = nullptr;
  Reached reached = {};
  std::mutex lock{};

  Point get() {
    std::lock_guard held(lock);
    return point;
  }

  // What asking for it, or waiting for it on the host, returns if there is no answer.
  cudaError_t may_ask() {
    std::lock_guard held(lock);
    if (!capture) return may_call();
    capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
};

Event* event_of(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }

cudaError_t create(cudaEvent_t* made) {
  return call([&] {
    ++counters.events_created;
    *made = reinterpret_cast<cudaEvent_t>(new Event{current_device().ordinal});
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* made) { return create(made); }

SOFTGPU_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
  return create(made);
}

SOFTGPU_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call([&] {
    delete event_of(handle);
    return cudaSuccess;
  });
}

// An event belongs to the device that was current when it was made, and so must the stream.
SOFTGPU_EXPORT cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t to) {
  return call([&] {
    Event* event = event_of(handle);
    Stream* stream = stream_of(to);
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = may_give(stream)) return error;
    Reached reached;
    auto capture = captured(stream, &reached);
    Point point{nullptr, 0};
    if (!capture) {
      ++counters.events_recorded;
      point = give(stream, {[] {}});
    }
    std::lock_guard held(event->lock);
    event->point = point;
    event->capture = std::move(capture);
    event->reached = std::move(reached);
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return call([&] {
    Event* own = event_of(event);
    Stream* stream = stream_of(handle);
    if (cudaError_t error = may_give(stream)) return error;
    {
      std::lock_guard held(own->lock);
      if (own->capture) return join(stream, own->capture, own->reached);
    }
    const Point point = own->get();
    if (auto capture = captured(stream, nullptr)) {
      if (!point.stream) return cudaSuccess;
      capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    ++counters.events_waited;
    if (point.stream) give(stream, {[] {}, Reach::kPeers, {point}});
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call([&] {
    if (cudaError_t error = event_of(handle)->may_ask()) return error;
    const Point point = event_of(handle)->get();
    ++counters.events_queried;
    return !point.stream || passed_by_now(point) ? cudaSuccess : cudaErrorNotReady;
  });
}

SOFTGPU_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call([&] {
    if (cudaError_t error = event_of(handle)->may_ask()) return error;
    const Point point = event_of(handle)->get();
    if (point.stream) wait_for(point);
    return device(event_of(handle)->device).lost.load();
  });
}

// There is no time on this device that would mean anything.
SOFTGPU_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t second) {
  return call([&] {
    const Point a = event_of(first)->get(), b = event_of(second)->get();
    if (!a.stream || !b.stream) return cudaErrorInvalidResourceHandle;
    *ms = 0;
    return passed(a) && passed(b) ? cudaSuccess : cudaErrorNotReady;
  });
}
