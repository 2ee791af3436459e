// What the batched kernels share: a launch works on entries of a table, and its blocks are dealt
// out to them beforehand. first[e] is the first block of entry e, and first[count] the number of
// all blocks.
#pragma once

constexpr unsigned kThreads = 256;
constexpr unsigned kUnitsPerThread = 8;

// The last position from low on, and before high, whose start is at most n. starts ascends, and
// starts[low] <= n.
template <typename Index, typename Start>
__device__ inline Index last_at_most(const Start* starts, Index low, Index high, Start n) {
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    if (starts[middle] <= n) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ inline unsigned entry_of(const unsigned* first, unsigned count, unsigned block) {
  return last_at_most(first, 0u, count, block);
}

// n / extent for n < 2^31: T. Granlund and P. Montgomery, "Division by invariant integers using
// multiplication", 1994.
__device__ inline unsigned divided(unsigned n, unsigned magic, unsigned shift) {
  return (__umulhi(n, magic) + n) >> shift;
}

// The same for 64 bits and n < 2^63.
__device__ inline long long divided(long long n, unsigned long long magic, unsigned shift) {
  return static_cast<long long>((__umul64hi(n, magic) + n) >> shift);
}
