// Packing and unpacking in flat order, for reshapes whose dims do not line up.
//
// A shard is a box of the row-major flat order of the array in one shape; another box, in another
// shape, has some of its elements in common with it. In flat order these are numbered from 0:
// pack_flat copies them from the shard, which is stored densely, to a dense buffer, unpack_flat
// from a buffer to the shard. Number n finds its row (a contiguous run in flat order of one of the
// boxes) by binary search in how many common elements precede each row, between the rows of the
// block's first and last number; work is proportional to the common elements.
//
// The rank of a flat index in a box is the number of the box's elements before it, and the position
// in the box's dense storage if it has the element there. All elements of the shard within a row of
// the other box are common, so that
//
// direct  with rows of the other box, a position in the shard is a rank that the table gives up to
//         the number: one addition.
// mapped  With rows of the shard, the table gives the rank in the other box; its inverse, mixed
//         radix, is the flat index, and a number of the row makes that a position. It takes a
//         division per dim, but is far less to read where the other box has many short rows.
//
// The buffer is fully coalesced and the shard is in runs of the rows that both boxes share:
// expected near the bandwidth of a device-to-device copy for long runs and units of 8 and 16 bytes,
// bound by the instructions for 1 and 2, and n/32 of it for runs of n bytes below a 32-byte sector.

#include "blocks.cuh"

constexpr int kDims = 8;
constexpr unsigned kFlatUnits = 4;  // per thread; with eight, the registers would not do

struct FlatJob {
  unsigned long long storage;  // address of the shard
  unsigned long long buffer;   // address of the buffer
  long long total;             // common units, of `unit` bytes each, as everywhere below
  long long rows;              // where its rows' numbers start in the table: for all rows the
                               // common units before it; for all the rank of its first unit less
                               // these; where mapped, for all position less flat index
  long long start;             // where mapped, flat index of the other box's first unit,
  long long extent[kDims];     // and its dims; the last one varies fastest
  long long stride[kDims];     // units of the flat order per step of each
  unsigned long long magic[kDims];  // division by each extent
  unsigned shift[kDims];
  unsigned row_count;
  unsigned dims;
  unsigned unit;    // bytes: 1, 2, 4, 8 or 16
  unsigned mapped;  // 0 direct, 1 mapped
};

__device__ inline long long unranked(const FlatJob& job, long long rank) {
  long long flat = job.start;
#pragma unroll 1
  for (unsigned dim = job.dims - 1; dim > 0; --dim) {
    const long long above = divided(rank, job.magic[dim], job.shift[dim]);
    flat += (rank - above * job.extent[dim]) * job.stride[dim];
    rank = above;
  }
  return flat + rank * job.stride[0];
}

template <typename Unit, bool kPack>
__device__ inline void move_units(const FlatJob& job, const long long* table, unsigned block,
                                  unsigned first_row, unsigned last_row) {
  const long long* before = table + job.rows;
  const long long* offset = before + job.row_count;
  const long long* shift = offset + job.row_count;
  const long long base = block * (1ll * kThreads * kFlatUnits) + threadIdx.x;
  unsigned row = first_row;
  Unit units[kFlatUnits];
  long long positions[kFlatUnits];
#pragma unroll
  for (unsigned k = 0; k < kFlatUnits; ++k) {
    const long long n = base + k * kThreads;
    if (n < job.total) {
      row = last_at_most(before, row, last_row + 1, n);
      const long long rank = n + offset[row];
      positions[k] = job.mapped ? unranked(job, rank) + shift[row] : rank;
      const unsigned long long source =
          kPack ? job.storage + positions[k] * sizeof(Unit) : job.buffer + n * sizeof(Unit);
      units[k] = *reinterpret_cast<const Unit*>(source);
    }
  }
#pragma unroll
  for (unsigned k = 0; k < kFlatUnits; ++k) {
    const long long n = base + k * kThreads;
    if (n < job.total) {
      const unsigned long long target =
          kPack ? job.buffer + n * sizeof(Unit) : job.storage + positions[k] * sizeof(Unit);
      *reinterpret_cast<Unit*>(target) = units[k];
    }
  }
}

template <bool kPack>
__device__ inline void move_block(const FlatJob* jobs, const unsigned* first, unsigned count,
                                  const long long* table, const unsigned* block_rows) {
  const unsigned j = entry_of(first, count, blockIdx.x);
  const FlatJob& job = jobs[j];
  const unsigned block = blockIdx.x - first[j];
  const unsigned low = block_rows[blockIdx.x];
  const bool is_last = blockIdx.x + 1 == first[j + 1];
  const unsigned high = is_last ? job.row_count - 1 : block_rows[blockIdx.x + 1];
  switch (job.unit) {
    case 16: move_units<ulonglong2, kPack>(job, table, block, low, high); break;
    case 8: move_units<unsigned long long, kPack>(job, table, block, low, high); break;
    case 4: move_units<unsigned, kPack>(job, table, block, low, high); break;
    case 2: move_units<unsigned short, kPack>(job, table, block, low, high); break;
    default: move_units<unsigned char, kPack>(job, table, block, low, high); break;
  }
}

// block_rows gives each block the row of its first unit.
extern "C" __global__ void __launch_bounds__(256)
    pack_flat(const FlatJob* jobs, const unsigned* first, unsigned count, const long long* table,
              const unsigned* block_rows) {
  move_block<true>(jobs, first, count, table, block_rows);
}

extern "C" __global__ void __launch_bounds__(256)
    unpack_flat(const FlatJob* jobs, const unsigned* first, unsigned count, const long long* table,
                const unsigned* block_rows) {
  move_block<false>(jobs, first, count, table, block_rows);
}
