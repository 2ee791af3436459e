#include "fibers.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "faults.h"

#ifndef __x86_64__
#error "the switch between stacks is written for x86-64"
#endif

// Saves the registers that a call keeps on this stack, and takes those from another one.
extern "C" void softgpu_switch_stacks(void** save, void* to);
asm(R"(
.text
.globl softgpu_switch_stacks
.hidden softgpu_switch_stacks
softgpu_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace softgpu {
namespace {

const size_t kStack = 256 << 10;
const size_t kPage = 4096;
const int kSavedRegisters = 6;
const unsigned kWarp = 32;

enum class State { kRunning, kAtWarp, kAtBlock, kEnded };

struct Fiber {
  char* stack;  // its lowest page cannot be used
  void* top;    // where its registers are while it does not run
};

// The block that runs; there is one at a time.
struct Block {
  const SoftGpuKernel* kernel;
  void** arguments;
  unsigned threads;
  unsigned next = 0;     // the first thread that has not begun
  unsigned current = 0;  // the thread that runs
  unsigned ended = 0;
  std::vector<State> states = {};
  std::vector<int> fibers = {};  // of threads that wait
};

std::vector<Fiber> pool;
std::vector<int> idle;  // fibers of the pool
int running = -1;       // a fiber of the pool
void* scheduler;        // the stack that they were called from
Block* block;

void place(unsigned thread) {
  SoftGpuIndices* indices = block->kernel->indices;
  const SoftGpuDim& dim = indices->block_dim;
  indices->thread = {thread % dim.x, thread / dim.x % dim.y, thread / dim.x / dim.y};
  block->current = thread;
}

void to_scheduler() { softgpu_switch_stacks(&pool[running].top, scheduler); }

// What a fiber does: threads that have not begun, until there are none, or one waits.
void body() {
  while (true) {
    while (block->next < block->threads) {
      place(block->next++);
      block->kernel->thread(block->arguments);
      block->states[block->current] = State::kEnded;
      ++block->ended;
    }
    idle.push_back(running);
    to_scheduler();
  }
}

// A fiber that is about to call `body`.
int take() {
  if (idle.empty()) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stack == MAP_FAILED) fail(cudaErrorMemoryAllocation);
    mprotect(stack, kPage, PROT_NONE);
    idle.push_back(static_cast<int>(pool.size()));
    pool.push_back({static_cast<char*>(stack), nullptr});
  }
  const int number = idle.back();
  idle.pop_back();
  // As after a call: the return address lies 8 bytes below a multiple of 16.
  auto** at = reinterpret_cast<void**>(pool[number].stack + kStack) - 2;
  *--at = nullptr;
  *--at = reinterpret_cast<void*>(&body);
  for (int n = 0; n < kSavedRegisters; ++n) *--at = nullptr;
  pool[number].top = at;
  return number;
}

void go_on(int fiber) {
  running = fiber;
  softgpu_switch_stacks(&scheduler, pool[fiber].top);
  running = -1;
}

// Lets threads [first, last) go on if all that have not ended wait in that way.
bool release(unsigned first, unsigned last, State waiting) {
  bool any = false;
  for (unsigned n = first; n < last; ++n) {
    if (block->states[n] == State::kEnded) continue;
    if (block->states[n] != waiting) return false;
    any = true;
  }
  for (unsigned n = first; any && n < last; ++n)
    if (block->states[n] == waiting) block->states[n] = State::kRunning;
  return any;
}

void resume_all() {
  for (unsigned n = 0; n < block->threads; ++n) {
    if (block->states[n] != State::kRunning) continue;
    place(n);
    go_on(block->fibers[n]);
  }
}

void wait(State how) {
  const unsigned mine = block->current;
  block->states[mine] = how;
  block->fibers[mine] = running;
  to_scheduler();
}

}  // namespace

void run_block(const SoftGpuKernel* kernel, void** arguments) {
  const SoftGpuDim& dim = kernel->indices->block_dim;
  Block made{kernel, arguments, dim.x * dim.y * dim.z};
  made.states.assign(made.threads, State::kRunning);
  made.fibers.assign(made.threads, -1);
  block = &made;
  while (made.next < made.threads) go_on(take());
  while (made.ended < made.threads) {
    bool any = false;
    for (unsigned first = 0; first < made.threads; first += kWarp) {
      const unsigned last = first + kWarp < made.threads ? first + kWarp : made.threads;
      any |= release(first, last, State::kAtWarp);
    }
    any |= release(0, made.threads, State::kAtBlock);
    if (!any) {
      fprintf(stderr, "softgpu: the threads of a block wait for each other\n");
      fail(cudaErrorLaunchFailure);
    }
    resume_all();
  }
  block = nullptr;
}

void abandon_block() {
  if (!block) return;
  block = nullptr;
  running = -1;
  idle.clear();
  for (size_t n = 0; n < pool.size(); ++n) idle.push_back(static_cast<int>(n));
}

void wait_for_block() { wait(State::kAtBlock); }

void wait_for_warp() { wait(State::kAtWarp); }

}  // namespace softgpu
