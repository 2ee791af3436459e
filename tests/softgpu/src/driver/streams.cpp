#include "streams.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

#include "captures.h"
#include "counters.h"
#include "devices.h"
#include "faults.h"
#include "settings.h"

namespace softgpu {
namespace {

// A stream that was given more is worked off first, as real queues are finite, too.
const size_t kLongestQueue = 512;

struct Scheduler {
  std::mutex mutex;
  std::condition_variable changed;
  // Streams are never deleted, as events refer to points in them; destroyed ones leave this list.
  std::vector<Stream*> streams;
  // Whether some thread runs a piece of work, without the mutex.
  bool running = false;
  std::mt19937_64 random{settings().seed};
};

Scheduler& scheduler() {
  static auto* made = new Scheduler;
  return *made;
}

using Lock = std::unique_lock<std::mutex>;

bool ready(const Stream* stream) {
  if (stream->queue.empty()) return false;
  for (const Point& point : stream->queue.front().after)
    if (point.stream->done < point.count) return false;
  return true;
}

// The stream that goes on next, null if none can.
Stream* choose(Stream* preferred) {
  Scheduler& all = scheduler();
  if (!settings().seeded && preferred && ready(preferred)) return preferred;
  std::vector<Stream*> able;
  for (Stream* stream : all.streams)
    if (ready(stream)) able.push_back(stream);
  if (able.empty()) return nullptr;
  return able[settings().seeded ? all.random() % able.size() : 0];
}

void forget_if_ended(Stream* stream) {
  if (!stream->ending || stream->done < stream->given) return;
  auto& streams = scheduler().streams;
  streams.erase(std::remove(streams.begin(), streams.end(), stream), streams.end());
}

// Runs the next piece of work of some stream; false if there is none that can run now.
bool step(Lock& lock, Stream* preferred = nullptr) {
  Scheduler& all = scheduler();
  if (all.running) return false;
  Stream* stream = choose(preferred);
  if (!stream) return false;
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  all.running = true;
  lock.unlock();
  Device& own = device(stream->device);
  // What a lost device was given is dropped, so that whoever waits is told.
  if (own.lost == cudaSuccess) {
    Access access(&own, work.reach);
    if (cudaError_t error = run_guarded(work.run)) {
      cudaError_t works = cudaSuccess;
      own.lost.compare_exchange_strong(works, error);
    }
  }
  work = {};  // what it holds may take a while to go
  lock.lock();
  all.running = false;
  ++stream->done;
  forget_if_ended(stream);
  all.changed.notify_all();
  return true;
}

template <class Until>
void run_until(Lock& lock, Until until, Stream* preferred = nullptr) {
  while (!until())
    if (!step(lock, preferred) && !until()) scheduler().changed.wait(lock);
}

bool draw(unsigned one_in) {
  return settings().seeded && scheduler().random() % one_in == 0;
}

thread_local std::vector<Stream*> per_thread;  // by device

Stream* default_of_thread(int ordinal) {
  if (per_thread.empty()) per_thread.assign(device_count(), nullptr);
  if (!per_thread[ordinal]) per_thread[ordinal] = make_stream(ordinal, /*blocking=*/true);
  return per_thread[ordinal];
}

// The legacy default stream waits for all blocking streams of its device, and they for it.
void order_with_legacy(Stream* stream, Work& work) {
  if (!stream->blocking) return;
  Stream* legacy = device(stream->device).legacy;
  if (stream != legacy) {
    work.after.push_back({legacy, legacy->given});
    return;
  }
  for (Stream* other : scheduler().streams)
    if (other != legacy && other->blocking && other->device == stream->device)
      work.after.push_back({other, other->given});
}

}  // namespace

Stream* make_stream(int ordinal, bool blocking) {
  auto* made = new Stream{ordinal, blocking};
  Lock lock(scheduler().mutex);
  scheduler().streams.push_back(made);
  return made;
}

Stream* stream_of(cudaStream_t handle) {
  if (!handle || handle == cudaStreamLegacy) return current_device().legacy;
  if (handle == cudaStreamPerThread) return default_of_thread(current_device().ordinal);
  return reinterpret_cast<Stream*>(handle);
}

Point give(Stream* stream, Work work) {
  if (note(stream, work)) return point_of(stream);
  Lock lock(scheduler().mutex);
  order_with_legacy(stream, work);
  stream->queue.push_back(std::move(work));
  const uint64_t mine = ++stream->given;
  scheduler().changed.notify_all();
  if (!settings().seeded) {
    while (stream->done < mine && step(lock, stream)) {
    }
    return {stream, mine};
  }
  if (draw(4)) step(lock);
  if (stream->queue.size() > kLongestQueue)
    run_until(lock, [&] { return stream->queue.size() <= kLongestQueue / 2; });
  return {stream, mine};
}

Point point_of(Stream* stream) {
  Lock lock(scheduler().mutex);
  return {stream, stream->given};
}

bool passed(Point point) {
  Lock lock(scheduler().mutex);
  return point.stream->done >= point.count;
}

bool passed_by_now(Point point) {
  Lock lock(scheduler().mutex);
  if (point.stream->done < point.count) step(lock, point.stream);
  return point.stream->done >= point.count;
}

namespace {
Stream gate{0, /*blocking=*/false};  // which is given work by nobody, and runs none
}

Point never() {
  Lock lock(scheduler().mutex);
  return {&gate, gate.done + 1};
}

void give_up_waiting() {
  Lock lock(scheduler().mutex);
  ++gate.done;
  scheduler().changed.notify_all();
}

void wait_for(Point point) {
  ++counters.host_waits;
  Lock lock(scheduler().mutex);
  run_until(lock, [&] { return point.stream->done >= point.count; }, point.stream);
}

void wait_for_device(int ordinal) {
  ++counters.host_waits;
  drain_device(ordinal);
}

void drain_device(int ordinal) {
  Lock lock(scheduler().mutex);
  std::vector<Point> ends;
  for (Stream* stream : scheduler().streams)
    if (stream->device == ordinal) ends.push_back({stream, stream->given});
  for (const Point& end : ends) run_until(lock, [&] { return end.stream->done >= end.count; });
}

bool drawn() {
  Lock lock(scheduler().mutex);
  return draw(2);
}

}  // namespace softgpu

using namespace softgpu;

namespace {

cudaError_t create(cudaStream_t* made, unsigned flags) {
  return call([&] {
    ++counters.streams_created;
    const bool blocking = !(flags & cudaStreamNonBlocking);
    *made = reinterpret_cast<cudaStream_t>(make_stream(current_device().ordinal, blocking));
    return cudaSuccess;
  });
}

}  // namespace

SOFTGPU_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* made) {
  return create(made, cudaStreamDefault);
}

SOFTGPU_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return create(made, flags);
}

SOFTGPU_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int) {
  return create(made, flags);
}

SOFTGPU_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return call([&] {
    *flags = stream_of(handle)->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  return call([&] {
    *priority = 0;
    return cudaSuccess;
  });
}

// What the stream was given still runs; the call does not wait for it.
SOFTGPU_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call([&] {
    Stream* gone = stream_of(handle);
    Lock lock(scheduler().mutex);
    if (gone->ending || gone == device(gone->device).legacy) return cudaErrorInvalidResourceHandle;
    gone->ending = true;
    forget_if_ended(gone);
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call([&] {
    Stream* stream = stream_of(handle);
    if (cudaError_t error = may_wait(stream)) return error;
    wait_for(point_of(stream));
    return device(stream->device).lost.load();
  });
}

SOFTGPU_EXPORT cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call([&] {
    Stream* stream = stream_of(handle);
    if (cudaError_t error = may_wait(stream)) return error;
    return passed_by_now(point_of(stream)) ? cudaSuccess : cudaErrorNotReady;
  });
}

SOFTGPU_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function,
                                                 void* data, unsigned) {
  return call([&] {
    if (cudaError_t error = may_wait(stream_of(handle))) return error;
    give(stream_of(handle), {[=] { function(handle, cudaSuccess, data); }});
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function,
                                              void* data) {
  return call([&] {
    if (cudaError_t error = may_give(stream_of(handle))) return error;
    give(stream_of(handle), {[=] { function(data); }});
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return driver_call([&] {
    const int ordinal = stream_of(reinterpret_cast<cudaStream_t>(handle))->device;
    *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(ordinal + 1));
    return cudaSuccess;
  });
}

// For the libraries that stand beside the driver: gives a stream a function to run.
SOFTGPU_EXPORT void softgpu_give(void* handle, void (*function)(void*), void* data) {
  call([&] {
    if (cudaError_t error = may_wait(stream_of(static_cast<cudaStream_t>(handle)))) return error;
    ++counters.library_calls;
    give(stream_of(static_cast<cudaStream_t>(handle)), {[=] { function(data); }});
    return cudaSuccess;
  });
}
