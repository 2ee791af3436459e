// Runs the merge kernels on the CPU. instances.inc names them, one INSTANCE(...) each.
#include <map>
#include <string>

#include "harness.h"
#define GPUSHARD_HALF
#include "../../kernels/merge.cu"

int main() {
  using Kernel = void (*)(Merge);
  std::map<std::string, Kernel> kernels;
#define INSTANCE(...) kernels[#__VA_ARGS__] = __VA_ARGS__;
#include "instances.inc"
  return run_cases([&] {
    Memory memory;
    const auto name = taken<char>(taken<std::uint32_t>());
    const auto blocks = taken<std::uint32_t>();
    Merge merge = taken<Merge>();
    memory.relocate(merge.output);
    for (unsigned i = 0; i < merge.count; ++i) memory.relocate(merge.inputs[i]);
    const auto kernel = kernels.at(std::string(name.begin(), name.end()));
    shim_launch_apart(blocks, kThreads, [&] { kernel(merge); });
    memory.write();
  });
}
