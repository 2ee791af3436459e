#include "api.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>

#include "counters.h"
#include "devices.h"
#include "faults.h"

namespace softgpu {
namespace {

thread_local int depth = 0;
thread_local cudaError_t last = cudaSuccess;
std::atomic<bool> started{false};
bool forked = false;

uint64_t now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    make_devices();
    catch_faults();
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    started = true;
  });
}

}  // namespace

Clock::Clock() : start_(depth++ ? 0 : now()) {
  if (start_) counters.calls.fetch_add(1, std::memory_order_relaxed);
}

Clock::~Clock() {
  --depth;
  if (start_) counters.driver_ns.fetch_add(now() - start_, std::memory_order_relaxed);
}

cudaError_t enter(bool strict) {
  if (forked) return cudaErrorInitializationError;
  if (!started.load(std::memory_order_acquire)) start();
  return strict ? current_device().lost.load() : cudaSuccess;
}

cudaError_t remembered(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT cudaError_t cudaGetLastError() {
  cudaError_t error = last;
  last = cudaSuccess;
  return error;
}

SOFTGPU_EXPORT cudaError_t cudaPeekAtLastError() { return last; }

namespace {

struct Named {
  int number;
  const char* name;
  const char* text;
};

// The errors that the software GPU gives.
const Named kErrors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {200, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {217, "cudaErrorPeerAccessUnsupported", "peer access is not supported between these devices"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {500, "cudaErrorSymbolNotFound", "named symbol not found"},
    {401, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {600, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {704, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {710, "cudaErrorAssert", "device-side assert triggered"},
    {715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {903, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {904, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {905, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {906, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {908, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const Named& named(int number) {
  static const Named unknown{999, "cudaErrorUnknown", "unknown error"};
  for (const Named& error : kErrors)
    if (error.number == number) return error;
  return unknown;
}

}  // namespace

SOFTGPU_EXPORT const char* cudaGetErrorName(cudaError_t error) { return named(error).name; }

SOFTGPU_EXPORT const char* cudaGetErrorString(cudaError_t error) { return named(error).text; }

SOFTGPU_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = named(error).name;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = named(error).text;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT CUresult cuInit(unsigned) {
  return driver_call([] { return cudaSuccess; });
}
