// What goes wrong while the work of a stream runs, as a GPU tells it: by an error that stays.
#pragma once
#include <functional>

#include "api.h"

namespace softgpu {

// From now on, takes the signals of faults. Those that no work of a stream made go where they went.
void catch_faults();

// Runs work, and returns the error that ends its device: an illegal address, a trap, an assertion.
cudaError_t run_guarded(const std::function<void()>& work);

// Ends the work that this thread runs.
[[noreturn]] void fail(cudaError_t error);

}  // namespace softgpu
