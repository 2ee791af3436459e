// Batched strided fills: one launch fills any number of boxes, each with a value of its own.
//
// A box is cut beforehand into parts of at most four dims, counted in units of 1, 2, 4, 8 or 16
// bytes, which lie dense and aligned. Its value is repeated to 16 bytes and travels in the entry,
// so that a unit larger than an element needs no other kernel. Blocks are dealt out by bytes.
//
// Neighbouring threads fill neighbouring units of the last dim, eight units each. Nothing is read
// but the entry. Where the last dim is long and the unit is 16 bytes, stores are fully coalesced:
// expected near the write bandwidth of a memset. Runs of n bytes shorter than a 32-byte sector are
// expected to reach n/32 of it, and units of 1 and 2 bytes to be bound by the instructions that
// find the address of each.

#include "blocks.cuh"

struct Fill {
  unsigned long long target;      // address of the first unit
  unsigned long long pattern[2];  // the value, repeated to 16 bytes
  long long stride[4];            // bytes per step of each dim; the last dim varies fastest
  unsigned extent[4];             // steps of each dim
  unsigned magic[3], shift[3];    // division by extent[1], extent[2] and extent[3]
  unsigned unit;                  // bytes: 1, 2, 4, 8 or 16
};

constexpr unsigned kInlineFills = 36;

struct FillBatch {
  Fill fills[kInlineFills];
  unsigned first[kInlineFills + 1];
  unsigned count;
};

template <typename Unit>
__device__ inline void fill_units(const Fill& fill, Unit value, unsigned block) {
  const unsigned total = fill.extent[0] * fill.extent[1] * fill.extent[2] * fill.extent[3];
  const unsigned base = block * (kThreads * kUnitsPerThread) + threadIdx.x;
#pragma unroll
  for (unsigned k = 0; k < kUnitsPerThread; ++k) {
    const unsigned n = base + k * kThreads;
    if (n < total) {
      unsigned left = n;
      long long target = 0;
#pragma unroll
      for (int dim = 3; dim > 0; --dim) {
        const unsigned above = divided(left, fill.magic[dim - 1], fill.shift[dim - 1]);
        target += (left - above * fill.extent[dim]) * fill.stride[dim];
        left = above;
      }
      target += left * fill.stride[0];
      *reinterpret_cast<Unit*>(fill.target + target) = value;
    }
  }
}

__device__ inline void fill_block(const Fill& fill, unsigned block) {
  const unsigned long long low = fill.pattern[0];
  switch (fill.unit) {
    case 16: fill_units(fill, ulonglong2{low, fill.pattern[1]}, block); break;
    case 8: fill_units(fill, low, block); break;
    case 4: fill_units(fill, static_cast<unsigned>(low), block); break;
    case 2: fill_units(fill, static_cast<unsigned short>(low), block); break;
    default: fill_units(fill, static_cast<unsigned char>(low), block); break;
  }
}

// Few boxes: they travel as the launch's argument.
extern "C" __global__ void __launch_bounds__(256) fill_boxes_inline(const FillBatch batch) {
  const unsigned f = entry_of(batch.first, batch.count, blockIdx.x);
  fill_block(batch.fills[f], blockIdx.x - batch.first[f]);
}

// Many: they lie in a table on the device.
extern "C" __global__ void __launch_bounds__(256)
    fill_boxes_table(const Fill* fills, const unsigned* first, unsigned count) {
  const unsigned f = entry_of(first, count, blockIdx.x);
  fill_block(fills[f], blockIdx.x - first[f]);
}
