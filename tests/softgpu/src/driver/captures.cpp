// Graphs: work that streams noted, to be given to a stream by one call.
#include "captures.h"

#include <atomic>
#include <mutex>

#include "counters.h"
#include "devices.h"

namespace softgpu {
namespace {

struct Graph {
  int device;
  std::vector<Work> nodes;
};

struct Exec {
  int device;
  std::vector<Work> nodes;
  // Where it was launched last: it does not overtake itself.
  Point last{nullptr, 0};
};

std::mutex mutex;
std::vector<std::shared_ptr<Capture>> active;
std::atomic<size_t> count{0};

std::shared_ptr<Capture> capture_of(Stream* stream) {
  for (const auto& one : active)
    if (one->streams.count(stream)) return one;
  return nullptr;
}

cudaError_t invalidated(Capture& capture, cudaError_t error) {
  capture.invalid = true;
  return error;
}

void add(std::map<Stream*, uint64_t>& to, const Reached& from) {
  for (const auto& [stream, n] : from) to[stream] = std::max(to[stream], n);
}

}  // namespace

cudaError_t may_give(Stream* stream) {
  if (!count) return cudaSuccess;
  std::lock_guard held(mutex);
  if (auto own = capture_of(stream))
    return own->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (stream == device(stream->device).legacy)
    for (const auto& one : active)
      for (const auto& [other, reached] : one->streams)
        if (other->blocking && other->device == stream->device)
          return invalidated(*one, cudaErrorStreamCaptureImplicit);
  return cudaSuccess;
}

cudaError_t may_call() {
  if (!count) return cudaSuccess;
  std::lock_guard held(mutex);
  cudaError_t found = cudaSuccess;
  for (const auto& one : active) {
    const bool own = one->thread == std::this_thread::get_id();
    if (one->mode == cudaStreamCaptureModeGlobal ||
        (own && one->mode == cudaStreamCaptureModeThreadLocal))
      found = invalidated(*one, cudaErrorStreamCaptureUnsupported);
  }
  return found;
}

cudaError_t may_wait(Stream* stream) {
  if (!count) return cudaSuccess;
  {
    std::lock_guard held(mutex);
    if (auto own = capture_of(stream)) return invalidated(*own, cudaErrorStreamCaptureUnsupported);
  }
  return may_call();
}

std::shared_ptr<Capture> captured(Stream* stream, Reached* reached) {
  if (!count) return nullptr;
  std::lock_guard held(mutex);
  auto own = capture_of(stream);
  if (own && reached) *reached = own->streams[stream];
  return own;
}

cudaError_t join(Stream* stream, const std::shared_ptr<Capture>& capture, const Reached& reached) {
  std::lock_guard held(mutex);
  auto own = capture_of(stream);
  if (own && own->invalid) return cudaErrorStreamCaptureInvalidated;
  if (own && own != capture) {
    invalidated(*own, cudaErrorStreamCaptureMerge);
    return capture ? invalidated(*capture, cudaErrorStreamCaptureMerge)
                   : cudaErrorStreamCaptureIsolation;
  }
  if (stream->device != capture->origin->device)  // is allowed on GPUs, and not done here
    return invalidated(*capture, cudaErrorStreamCaptureUnsupported);
  add(capture->streams[stream], reached);
  return cudaSuccess;
}

bool note(Stream* stream, const Work& work) {
  if (!count) return false;
  std::lock_guard held(mutex);
  auto own = capture_of(stream);
  if (!own) return false;
  own->nodes.push_back(work);
  ++own->streams[stream][stream];
  return true;
}

}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] {
    Stream* stream = stream_of(handle);
    if (stream == device(stream->device).legacy) return cudaErrorStreamCaptureUnsupported;
    std::lock_guard held(mutex);
    if (capture_of(stream)) return cudaErrorIllegalState;
    auto made = std::make_shared<Capture>(Capture{stream, mode, std::this_thread::get_id()});
    made->streams[stream] = {};
    active.push_back(made);
    ++count;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
  return call([&] {
    *made = nullptr;
    Stream* stream = stream_of(handle);
    std::lock_guard held(mutex);
    auto own = capture_of(stream);
    if (!own) return cudaErrorIllegalState;
    if (own->origin != stream) return invalidated(*own, cudaErrorStreamCaptureUnmatched);
    if (own->mode != cudaStreamCaptureModeRelaxed && own->thread != std::this_thread::get_id())
      return cudaErrorStreamCaptureWrongThread;
    for (auto at = active.begin(); at != active.end(); ++at)
      if (*at == own) {
        active.erase(at);
        break;
      }
    --count;
    if (own->invalid) return cudaErrorStreamCaptureInvalidated;
    const Reached& end = own->streams[stream];
    for (const auto& [other, reached] : own->streams) {
      const auto mine = reached.find(other), there = end.find(other);
      if (mine != reached.end() && (there == end.end() || there->second < mine->second))
        return cudaErrorStreamCaptureUnjoined;
    }
    ++counters.graphs_captured;
    *made = reinterpret_cast<cudaGraph_t>(new Graph{stream->device, own->nodes});
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                                 cudaStreamCaptureStatus* status) {
  return call([&] {
    const auto own = captured(stream_of(handle), nullptr);
    *status = !own            ? cudaStreamCaptureStatusNone
              : own->invalid ? cudaStreamCaptureStatusInvalidated
                             : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                                unsigned long long) {
  return call([&] {
    const auto* own = reinterpret_cast<Graph*>(graph);
    ++counters.graphs_instantiated;
    *made = reinterpret_cast<cudaGraphExec_t>(new Exec{own->device, own->nodes});
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t handle) {
  return call([&] { return may_give(stream_of(handle)); });
}

// Its nodes are given one by one, so that other streams come between them.
SOFTGPU_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  return call([&] {
    auto* own = reinterpret_cast<Exec*>(exec);
    Stream* stream = stream_of(handle);
    if (stream->device != own->device) return cudaErrorInvalidResourceHandle;
    if (captured(stream, nullptr)) return cudaErrorNotSupported;  // graphs within graphs
    if (cudaError_t error = may_give(stream)) return error;
    ++counters.graph_launches;
    counters.graph_nodes += own->nodes.size();
    if (own->last.stream) give(stream, {[] {}, Reach::kPeers, {own->last}});
    for (const Work& node : own->nodes) own->last = give(stream, node);
    return cudaSuccess;
  });
}

// What was launched goes on.
SOFTGPU_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call([&] {
    ++counters.graphs_released;
    delete reinterpret_cast<Exec*>(exec);
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] {
    delete reinterpret_cast<Graph*>(graph);
    return cudaSuccess;
  });
}
