// NCCL: sends and receives in groups, among the GPUs of one process.
//
// What would hang is an error: a send or a receive without its counterpart, or of another size.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "library.h"

extern "C" int cudaGetDeviceCount(int* count);
extern "C" int softgpu_exchange(const void* messages, size_t count);
extern "C" void softgpu_stall(void* stream);
extern "C" void softgpu_abort_stalls();
extern "C" void softgpu_count_communicators(int made, int released);

namespace softgpu {
namespace {

enum Result {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
};

struct Communicator {
  int clique;  // the number of all that were made together
  int rank;
  int ranks;
  int device;
  bool released = false;
};

struct Call {
  Communicator* own;
  int peer;
  char* data;
  size_t nbytes;
  void* stream;
};

struct Message {  // as in driver/messages.cpp
  void* receiver;
  void* sender;
  char* to;
  const char* from;
  size_t nbytes;
};

// What a thread has asked for since its group began.
struct Group {
  int depth = 0;
  int error = kSuccess;
  std::vector<Call> sends = {}, receives = {};
};

thread_local Group group;
std::mutex lock;
int cliques = 0;
std::map<std::string, int> failing;  // after how many more calls each fails, once

// Whether a call fails now, as a test has asked for.
bool fails(const char* name) {
  std::lock_guard held(lock);
  auto found = failing.find(name);
  if (found == failing.end() || found->second-- > 0) return false;
  failing.erase(found);
  return true;
}

int refuse(const char* why, const Call& call) {
  fprintf(stderr, "softgpu: NCCL would hang: %s, rank %d with rank %d, %zu bytes\n", why,
          call.own->rank, call.peer, call.nbytes);
  return kInvalidUsage;
}

// (clique, sender, receiver)
using Way = std::tuple<int, int, int>;

// Matches sends with receives, in the order of each way.
int match(const Group& all, std::vector<Message>& messages) {
  std::map<Way, std::vector<const Call*>> sends;
  for (const Call& send : all.sends)
    sends[{send.own->clique, send.own->rank, send.peer}].push_back(&send);
  std::map<Way, size_t> matched;
  for (const Call& receive : all.receives) {
    const Way way{receive.own->clique, receive.peer, receive.own->rank};
    const size_t number = matched[way]++;
    if (number >= sends[way].size()) return refuse("a receive without a send", receive);
    const Call& send = *sends[way][number];
    if (send.nbytes != receive.nbytes) return refuse("a send of another size", receive);
    messages.push_back({receive.stream, send.stream, receive.data, send.data, send.nbytes});
  }
  for (auto& [way, all_of_it] : sends)
    if (matched[way] < all_of_it.size()) return refuse("a send without a receive", *all_of_it.back());
  return kSuccess;
}

int end(Group all) {
  if (all.error) return all.error;
  std::vector<Message> messages;
  if (int error = match(all, messages)) return error;
  if (fails("end")) {  // when some GPUs have begun already
    if (!messages.empty()) softgpu_stall(messages[0].receiver);
    return kSystemError;
  }
  return softgpu_exchange(messages.data(), messages.size()) ? kUnhandledCudaError : kSuccess;
}

int add(const char* name, std::vector<Call> Group::*calls, const void* data, size_t count, int type,
        int peer, Communicator* own, void* stream) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  int error = kSuccess;
  if (fails(name))
    error = kSystemError;
  else if (!own || own->released || peer < 0 || peer >= own->ranks || type < 0 || type > 9)
    error = kInvalidArgument;
  if (error) {
    if (group.depth) group.error = error;
    return error;
  }
  char* start = static_cast<char*>(const_cast<void*>(data));
  (group.*calls).push_back({own, peer, start, count * sizes[type], stream});
  return group.depth ? kSuccess : end(std::exchange(group, {}));
}

int release(Communicator* own) {
  if (!own || own->released) return kInvalidArgument;
  own->released = true;  // nobody else takes its place, so that a later use is noticed
  softgpu_count_communicators(0, 1);
  return kSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT int ncclGetVersion(int* version) {
  *version = 22707;
  return kSuccess;
}

SOFTGPU_EXPORT const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSuccess: return "no error";
    case kUnhandledCudaError: return "unhandled cuda error";
    case kSystemError: return "unhandled system error";
    case kInvalidArgument: return "invalid argument";
    case kInvalidUsage: return "invalid usage";
  }
  return "internal error";
}

SOFTGPU_EXPORT int ncclCommInitAll(Communicator** made, int count, const int* devices) {
  int there = 0;
  if (cudaGetDeviceCount(&there)) return kUnhandledCudaError;
  if (fails("init")) return kSystemError;
  for (int n = 0; n < count; ++n) {
    const int device = devices ? devices[n] : n;
    if (device < 0 || device >= there) return kInvalidArgument;
    for (int other = 0; other < n; ++other)
      if ((devices ? devices[other] : other) == device) return kInvalidUsage;
  }
  std::lock_guard held(lock);
  ++cliques;
  for (int n = 0; n < count; ++n)
    made[n] = new Communicator{cliques, n, count, devices ? devices[n] : n};
  softgpu_count_communicators(count, 0);
  return kSuccess;
}

SOFTGPU_EXPORT int ncclCommDestroy(Communicator* own) { return release(own); }

SOFTGPU_EXPORT int ncclCommAbort(Communicator* own) {
  const int error = release(own);
  softgpu_abort_stalls();
  return error;
}

SOFTGPU_EXPORT int ncclCommGetAsyncError(Communicator*, int* error) {
  *error = kSuccess;
  return kSuccess;
}

SOFTGPU_EXPORT int ncclCommCount(const Communicator* own, int* count) {
  *count = own->ranks;
  return kSuccess;
}

SOFTGPU_EXPORT int ncclCommUserRank(const Communicator* own, int* rank) {
  *rank = own->rank;
  return kSuccess;
}

SOFTGPU_EXPORT int ncclCommCuDevice(const Communicator* own, int* device) {
  *device = own->device;
  return kSuccess;
}

SOFTGPU_EXPORT int ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}

SOFTGPU_EXPORT int ncclGroupEnd() {
  if (!group.depth) return kInvalidUsage;
  if (--group.depth) return kSuccess;
  return end(std::exchange(group, {}));
}

SOFTGPU_EXPORT int ncclSend(const void* data, size_t count, int type, int peer, Communicator* own,
                            void* stream) {
  return add("send", &Group::sends, data, count, type, peer, own, stream);
}

SOFTGPU_EXPORT int ncclRecv(void* data, size_t count, int type, int peer, Communicator* own,
                            void* stream) {
  return add("receive", &Group::receives, data, count, type, peer, own, stream);
}

// For tests: lets "init", "send", "receive" or "end" fail once, after so many more of these calls.
SOFTGPU_EXPORT void softgpu_fail_nccl(const char* name, int after) {
  std::lock_guard held(lock);
  failing[name] = after;
}
