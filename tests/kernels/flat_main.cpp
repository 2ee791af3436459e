// Runs the flat-order kernels on the CPU: packs, or unpacks.
#include "harness.h"
#include "../../kernels/flat.cu"

int main() {
  return run_cases([] {
    Memory memory;
    const auto unpack = taken<std::uint32_t>();
    const auto count = taken<std::uint32_t>(), blocks = taken<std::uint32_t>();
    const auto numbers = taken<std::uint32_t>();
    auto jobs = taken<FlatJob>(count);
    const auto first = taken<unsigned>(count + 1);
    const auto rows = taken<long long>(numbers);
    const auto block_rows = taken<unsigned>(blocks);
    for (FlatJob& job : jobs) {
      memory.relocate(job.storage);
      memory.relocate(job.buffer);
    }
    const auto kernel = unpack ? unpack_flat : pack_flat;
    shim_launch_apart(blocks, kThreads, [&] {
      kernel(jobs.data(), first.data(), count, rows.data(), block_rows.data());
    });
    memory.write();
  });
}
