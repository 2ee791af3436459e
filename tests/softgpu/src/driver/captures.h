// Captures: streams that note what they are given instead of queueing it.
#pragma once
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "streams.h"

namespace softgpu {

// How much of what each stream noted something comes after.
using Reached = std::map<Stream*, uint64_t>;

struct Capture {
  Stream* origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  // In an order in which they may run.
  std::vector<Work> nodes = {};
  // What the next piece of work of each stream that takes part comes after, its own included.
  std::map<Stream*, Reached> streams = {};
  bool invalid = false;
};

// Whether a stream may be given work now, and if it notes that, whether it still can.
cudaError_t may_give(Stream* stream);

// What calls return that no thread may make, or not this one, while a stream notes; that is over
// for it then.
cudaError_t may_call();

// What a call that waits for a stream, or asks for it, returns while that notes.
cudaError_t may_wait(Stream* stream);

// The capture that a stream takes part in, and how far that is; null if it does not.
std::shared_ptr<Capture> captured(Stream* stream, Reached* reached);

// Lets a stream wait for a place in a capture, of which it is a part then.
cudaError_t join(Stream* stream, const std::shared_ptr<Capture>& capture, const Reached& reached);

// Notes a piece of work; false if the stream does not take part in a capture.
bool note(Stream* stream, const Work& work);

}  // namespace softgpu
