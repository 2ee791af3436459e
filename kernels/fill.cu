// Batched strided fills: one launch fills any number of boxes, each with a value of its own.
//
// A box is cut beforehand into parts of at most four dims, counted in units of 1, 2, 4, 8 or 16
// bytes, which lie dense and aligned. Its value is repeated to 16 bytes and travels in the entry,
// so that a unit larger than an element needs no other kernel. Blocks are dealt out by bytes.
//
// Neighbouring threads fill neighbouring units of the last dim, eight units each. Nothing is read
// but the entry. Where the last dim is long stores are fully coalesced; runs of n bytes shorter than
// a 32-byte sector can reach n/32 of that. README.md has the instructions that a unit takes.

#include "blocks.cuh"

struct Fill {
  unsigned long long target;      // address of the first unit
  unsigned long long pattern[2];  // the value, repeated to 16 bytes
  int stride[4];                  // bytes per step of each dim; the last dim varies fastest
  unsigned extent[4];             // steps of each dim
  unsigned magic[3], shift[3];    // division by extent[1], extent[2] and extent[3]
  unsigned unit;                  // bytes: 1, 2, 4, 8 or 16
  unsigned form;                  // 1, 2 or 4: the last so many dims may be longer than 1
};

constexpr unsigned kInlineFills = 44;

struct FillBatch {
  Fill fills[kInlineFills];
  unsigned first[kInlineFills + 1];
  unsigned count;
};

template <int kDims, typename Unit>
__device__ inline void fill_rows(const Fill& fill, Unit value, unsigned block) {
  const unsigned total = units_of<kDims>(fill);
  const unsigned first = block * (kThreads * kUnitsPerThread) + threadIdx.x;
#pragma unroll
  for (unsigned k = 0; k < kUnitsPerThread; ++k) {
    const unsigned n = first + k * kThreads;
    unsigned long long target = fill.target;
    for_each_dim<kDims>(fill, n, [&](int dim, unsigned position) {
      target += steps(position, fill.stride[dim]);
    });
    if (n < total) *at<Unit>(target) = value;
  }
}

template <typename Unit>
__device__ inline void fill_units(const Fill& fill, Unit value, unsigned block) {
  switch (fill.form) {
    case 1: fill_rows<1>(fill, value, block); break;
    case 2: fill_rows<2>(fill, value, block); break;
    default: fill_rows<4>(fill, value, block); break;
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
  const Fill fill = batch.fills[f];
  fill_block(fill, blockIdx.x - batch.first[f]);
}

// Many: they lie in a table on the device.
extern "C" __global__ void __launch_bounds__(256)
    fill_boxes_table(const Fill* fills, const unsigned* first, unsigned count) {
  const unsigned f = entry_of(first, count, blockIdx.x);
  const Fill fill = fills[f];
  fill_block(fill, blockIdx.x - first[f]);
}
