// An event is a point in a stream's order, taken when it is recorded.
#include <chrono>
#include <memory>
#include <mutex>

#include "captures.h"
#include "counters.h"
#include "devices.h"
#include "streams.h"

namespace softgpu {
namespace {

using HostClock = std::chrono::steady_clock;

struct Event {
  int device;
  bool timed;
  // Where it was recorded last; a null stream if never.
  Point point{nullptr, 0};
  // If that was in a capture: which, and what comes before it.
  std::shared_ptr<Capture> capture = nullptr;
  Reached reached = {};
  // When the host's thread passed the point; the work that sets it may outlive the event.
  std::shared_ptr<HostClock::time_point> passed_at = nullptr;
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

cudaError_t create(cudaEvent_t* made, unsigned flags) {
  return call([&] {
    ++counters.events_created;
    const bool timed = !(flags & cudaEventDisableTiming);
    *made = reinterpret_cast<cudaEvent_t>(new Event{current_device().ordinal, timed});
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* made) { return create(made, 0); }

SOFTGPU_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  return create(made, flags);
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
    auto at = std::make_shared<HostClock::time_point>();
    if (!capture) {
      ++counters.events_recorded;
      point = give(stream, {[at] { *at = HostClock::now(); }});
    }
    std::lock_guard held(event->lock);
    event->point = point;
    event->passed_at = std::move(at);
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

// The host's time between the two, which says how long the host computed in between, not what a GPU
// would have taken.
SOFTGPU_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t second) {
  return call([&] {
    Event *a = event_of(first), *b = event_of(second);
    const Point from = a->get(), to = b->get();
    if (!a->timed || !b->timed || !from.stream || !to.stream) return cudaErrorInvalidResourceHandle;
    *ms = 0;
    if (!passed(from) || !passed(to)) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(*b->passed_at - *a->passed_at).count();
    return cudaSuccess;
  });
}
