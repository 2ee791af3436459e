#include "faults.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fibers.h"
#include "memory.h"

namespace softgpu {
namespace {

// Where to go on if the work that this thread runs fails; null while it runs none.
thread_local sigjmp_buf* way_out = nullptr;

const int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction before[NSIG];

void tell(const char* what, const void* address) {
  char line[160];
  const int n = snprintf(line, sizeof line, "softgpu: %s (address %p)\n", what, address);
  if (write(2, line, n) < 0) return;
}

[[noreturn]] void leave(cudaError_t error) {
  sigjmp_buf* out = way_out;
  way_out = nullptr;
  siglongjmp(*out, error);
}

void on_fault(int number, siginfo_t* info, void* context) {
  if (way_out) {
    const bool of_memory = number == SIGSEGV || number == SIGBUS;
    tell(of_memory ? "a kernel touched memory that it must not" : "a kernel failed", info->si_addr);
    leave(of_memory ? cudaErrorIllegalAddress : cudaErrorIllegalInstruction);
  }
  if (number == SIGSEGV && info->si_code == SEGV_PKUERR)
    tell("the host touched the memory of a GPU", info->si_addr);
  // The handler that was there before is called, or put back for when the fault comes again.
  const struct sigaction& other = before[number];
  if (other.sa_flags & SA_SIGINFO)
    other.sa_sigaction(number, info, context);
  else if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN)
    other.sa_handler(number);
  else
    sigaction(number, &other, nullptr);
}

// A thread's second stack, as that of a fiber may be what ran out.
class SignalStack {
 public:
  SignalStack() {
    stack_t found;
    if (sigaltstack(nullptr, &found) == 0 && !(found.ss_flags & SS_DISABLE)) return;
    own_.ss_size = 64 << 10;
    own_.ss_sp = malloc(own_.ss_size);
    sigaltstack(&own_, nullptr);
  }
  ~SignalStack() {
    if (!own_.ss_sp) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    free(own_.ss_sp);
  }

 private:
  stack_t own_{};
};

}  // namespace

void catch_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (int number : kSignals) sigaction(number, &action, &before[number]);
}

cudaError_t run_guarded(const std::function<void()>& work) {
  thread_local SignalStack stack;
  sigjmp_buf here;
  // The mask of signals was not touched, and saving it would be a call of the system.
  if (int error = sigsetjmp(here, 0)) {
    abandon_block();
    return static_cast<cudaError_t>(error);
  }
  way_out = &here;
  work();
  way_out = nullptr;
  return cudaSuccess;
}

void fail(cudaError_t error) {
  if (way_out) leave(error);
  fprintf(stderr, "softgpu: device code ran on the host\n");
  abort();
}

}  // namespace softgpu
