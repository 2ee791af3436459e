// What the batched kernels share: a launch works on entries of a table, and its blocks are dealt
// out to them beforehand. first[e] is the first block of entry e, and first[count] the number of
// all blocks.
#pragma once

constexpr unsigned kThreads = 256;
constexpr unsigned kUnitsPerThread = 8;

// The entry of a block.
__device__ inline unsigned entry_of(const unsigned* first, unsigned count, unsigned block) {
  unsigned low = 0, high = count;
  while (high - low > 1) {
    const unsigned middle = low + (high - low) / 2;
    if (first[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// n / extent for n < 2^31: T. Granlund and P. Montgomery, "Division by invariant integers using
// multiplication", 1994.
__device__ inline unsigned divided(unsigned n, unsigned magic, unsigned shift) {
  return (__umulhi(n, magic) + n) >> shift;
}

// A step in bytes of so many times another one: one instruction.
__device__ inline long long steps(unsigned count, int stride) {
  return static_cast<long long>(static_cast<int>(count)) * stride;
}

// Calls visit(dim, position) for each of the last kDims of an entry's four dims, the last one
// first, with the position of its unit n.
template <int kDims, typename Entry, typename Visit>
__device__ inline void for_each_dim(const Entry& entry, unsigned n, const Visit& visit) {
#pragma unroll
  for (int dim = 3; dim > 4 - kDims; --dim) {
    const unsigned above = divided(n, entry.magic[dim - 1], entry.shift[dim - 1]);
    visit(dim, n - above * entry.extent[dim]);
    n = above;
  }
  visit(4 - kDims, n);
}

// How many units the last kDims dims of an entry have.
template <int kDims, typename Entry>
__device__ inline unsigned units_of(const Entry& entry) {
  unsigned total = entry.extent[3];
#pragma unroll
  for (int dim = 2; dim > 3 - kDims; --dim) total *= entry.extent[dim];
  return total;
}

// What lies at an address, which is one of global memory: the compiler need not think of others.
template <typename Unit>
__device__ inline Unit* at(unsigned long long address) {
#ifdef __CUDA_ARCH__
  return static_cast<Unit*>(__cvta_global_to_generic(address));
#else
  return reinterpret_cast<Unit*>(address);
#endif
}
