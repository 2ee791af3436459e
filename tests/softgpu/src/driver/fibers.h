// The threads of a block, one after the other, each with a stack of its own where it must wait.
#pragma once
#include "../device/services.h"

namespace softgpu {

// Runs all threads of a block. A thread that never waits shares a stack with those after it.
void run_block(const SoftGpuKernel* kernel, void** arguments);

// Forgets the block under way, whose threads never go on.
void abandon_block();

// For threads: until all threads of the block, or of the warp, are there or have ended.
void wait_for_block();
void wait_for_warp();

}  // namespace softgpu
