// Runs the fill kernels on the CPU: the table's, and the inline one where the case fits.
#include "harness.h"
#include "../../kernels/fill.cu"

int main() {
  return run_cases([] {
    Memory memory;
    const auto count = taken<std::uint32_t>(), blocks = taken<std::uint32_t>();
    auto fills = taken<Fill>(count);
    const auto first = taken<unsigned>(count + 1);
    for (Fill& fill : fills) memory.relocate(fill.target);
    shim_launch_apart(blocks, kThreads,
                      [&] { fill_boxes_table(fills.data(), first.data(), count); });
    memory.write();
    if (count > kInlineFills) return;
    memory.restore();
    FillBatch batch{};
    std::memcpy(batch.fills, fills.data(), count * sizeof(Fill));
    std::memcpy(batch.first, first.data(), first.size() * sizeof(unsigned));
    batch.count = count;
    shim_launch_apart(blocks, kThreads, [&] { fill_boxes_inline(batch); });
    memory.write();
  });
}
