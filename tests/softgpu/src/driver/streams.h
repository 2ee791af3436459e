// Streams: queues of work, and who runs it when.
//
// There is no thread of the device's own. Without a seed, work runs as soon as it is given, as far
// as what it must wait for has run. With a seed it stays in its queue until the host waits, or
// something asks how far a stream is, or the seed says so; then the seed chooses among all streams
// that may go on. One piece of work runs at a time, on the thread that waits.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "api.h"
#include "guard.h"

namespace softgpu {

struct Stream;

// A place in a stream's order: after so many pieces of work.
struct Point {
  Stream* stream;
  uint64_t count;
};

struct Work {
  std::function<void()> run;
  Reach reach = Reach::kPeers;
  // What must have run before, besides what was given to the same stream.
  std::vector<Point> after = {};
};

struct Stream {
  int device;
  // Whether it is ordered with the legacy default stream.
  bool blocking;
  std::deque<Work> queue = {};
  // How many pieces it was given, and how many of them have run.
  uint64_t given = 0;
  uint64_t done = 0;
  // Whether it was destroyed, and goes with its last piece of work.
  bool ending = false;
};

Stream* make_stream(int device, bool blocking);

// The stream of a handle; that of the current device for the default ones.
Stream* stream_of(cudaStream_t handle);

// Returns the point after it.
Point give(Stream* stream, Work work);

// The point after all that a stream was given.
Point point_of(Stream* stream);

bool passed(Point point);

// Whether a point was passed, after running a piece of work at most if it was not.
bool passed_by_now(Point point);

// A point that no stream passes before somebody gives up waiting for it.
Point never();
void give_up_waiting();

// Let the host wait; these are counted.
void wait_for(Point point);
void wait_for_device(int ordinal);

// The same without being counted, for calls that wait as a side effect.
void drain_device(int ordinal);

// Whether things shall happen in an unusual order now; always false without a seed.
bool drawn();

}  // namespace softgpu
