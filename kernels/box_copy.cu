// Batched strided box copies: one launch copies any number of boxes from wherever the GPU can read
// to wherever it can write.
//
// A box is cut beforehand into pieces of at most four dims, counted in units of 1, 2, 4, 8 or 16
// bytes, which lie dense and aligned on both sides. Blocks are dealt out by bytes: first[p] is the
// first block of piece p, and first[count] the number of all blocks.
//
// rows   Neighbouring threads copy neighbouring units of the last dim, eight units each, loads
//        before stores. Where the last dim is long both sides are fully coalesced: near the
//        bandwidth of a device-to-device copy. Runs shorter than 32 bytes waste what is left of
//        each 32-byte sector: a run of n bytes can reach n/32 of it.
// tiles  The source is dense along one dim and the target along another. A block takes a square
//        of them through shared memory, one unit of padding per row keeps it free of bank
//        conflicts, and both sides are coalesced: about 85% of a copy for units of 4 bytes and
//        more, less for 1 and 2.

#include "blocks.cuh"

struct Piece {
  unsigned long long target, source;  // addresses of the first unit
  long long target_stride[4];         // bytes per step of each dim; the last dim varies fastest
  long long source_stride[4];
  unsigned extent[4];                 // steps of each dim
  unsigned magic[3], shift[3];        // division by extent[1], extent[2] and extent[3]
  unsigned unit;                      // bytes: 1, 2, 4, 8 or 16
  unsigned tiled;                     // 0 rows; 1 tiles: dim 2 is dense in the source, dim 3 in
};                                    // the target

constexpr unsigned kInlinePieces = 30;
constexpr unsigned kMostOperands = 448;

struct Batch {
  Piece pieces[kInlinePieces];
  unsigned first[kInlinePieces + 1];
  unsigned count;
};

// The operands that a piece copies to and from, as numbers in Bases.
struct Ends {
  unsigned target, source;
};

// Addresses of operands; those of the pieces are relative to them.
struct Bases {
  unsigned long long at[kMostOperands];
};

template <typename Unit>
__device__ inline void copy_rows(const Piece& piece, unsigned long long first_target,
                                 unsigned long long first_source, unsigned block) {
  const unsigned total = piece.extent[0] * piece.extent[1] * piece.extent[2] * piece.extent[3];
  const unsigned base = block * (kThreads * kUnitsPerThread) + threadIdx.x;
  Unit units[kUnitsPerThread];
  long long targets[kUnitsPerThread];
#pragma unroll
  for (unsigned k = 0; k < kUnitsPerThread; ++k) {
    const unsigned n = base + k * kThreads;
    if (n < total) {
      unsigned at[4];
      unsigned left = n;
#pragma unroll
      for (int dim = 3; dim > 0; --dim) {
        const unsigned above = divided(left, piece.magic[dim - 1], piece.shift[dim - 1]);
        at[dim] = left - above * piece.extent[dim];
        left = above;
      }
      at[0] = left;
      long long target = 0, source = 0;
#pragma unroll
      for (int dim = 0; dim < 4; ++dim) {
        target += at[dim] * piece.target_stride[dim];
        source += at[dim] * piece.source_stride[dim];
      }
      targets[k] = target;
      units[k] = *reinterpret_cast<const Unit*>(first_source + source);
    }
  }
#pragma unroll
  for (unsigned k = 0; k < kUnitsPerThread; ++k) {
    if (base + k * kThreads < total) {
      *reinterpret_cast<Unit*>(first_target + targets[k]) = units[k];
    }
  }
}

template <typename Unit, unsigned kTile>
__device__ inline void copy_tile(const Piece& piece, unsigned long long first_target,
                                 unsigned long long first_source, unsigned block,
                                 unsigned char* shared) {
  Unit(*tile)[kTile + 1] = reinterpret_cast<Unit(*)[kTile + 1]>(shared);
  const unsigned across = (piece.extent[3] + kTile - 1) / kTile;
  const unsigned down = (piece.extent[2] + kTile - 1) / kTile;
  const unsigned outer = block / (across * down);
  const unsigned first3 = block % across * kTile, first2 = block / across % down * kTile;
  const unsigned at1 = outer % piece.extent[1], at0 = outer / piece.extent[1];
  const unsigned long long source =
      first_source + at0 * piece.source_stride[0] + at1 * piece.source_stride[1];
  const unsigned long long target =
      first_target + at0 * piece.target_stride[0] + at1 * piece.target_stride[1];
  const unsigned x = threadIdx.x % kTile;
  for (unsigned y = threadIdx.x / kTile; y < kTile; y += kThreads / kTile) {
    if (first2 + x < piece.extent[2] && first3 + y < piece.extent[3]) {
      tile[y][x] = *reinterpret_cast<const Unit*>(source + (first2 + x) * piece.source_stride[2] +
                                                  (first3 + y) * piece.source_stride[3]);
    }
  }
  __syncthreads();
  for (unsigned y = threadIdx.x / kTile; y < kTile; y += kThreads / kTile) {
    if (first2 + y < piece.extent[2] && first3 + x < piece.extent[3]) {
      *reinterpret_cast<Unit*>(target + (first2 + y) * piece.target_stride[2] +
                               (first3 + x) * piece.target_stride[3]) = tile[x][y];
    }
  }
}

template <typename Unit, unsigned kTile>
__device__ inline void copy_piece(const Piece& piece, unsigned long long target,
                                  unsigned long long source, unsigned block,
                                  unsigned char* shared) {
  if (piece.tiled) {
    copy_tile<Unit, kTile>(piece, target, source, block, shared);
  } else {
    copy_rows<Unit>(piece, target, source, block);
  }
}

__device__ inline void copy_block(const Piece& piece, unsigned long long target,
                                  unsigned long long source, unsigned block) {
  __shared__ __align__(16) unsigned char shared[32 * 33 * 16];
  switch (piece.unit) {
    case 16: copy_piece<ulonglong2, 32>(piece, target, source, block, shared); break;
    case 8: copy_piece<unsigned long long, 32>(piece, target, source, block, shared); break;
    case 4: copy_piece<unsigned, 32>(piece, target, source, block, shared); break;
    case 2: copy_piece<unsigned short, 64>(piece, target, source, block, shared); break;
    default: copy_piece<unsigned char, 64>(piece, target, source, block, shared); break;
  }
}

// Few pieces: they travel as the launch's argument.
extern "C" __global__ void __launch_bounds__(256) copy_boxes_inline(const Batch batch) {
  const unsigned p = entry_of(batch.first, batch.count, blockIdx.x);
  const Piece& piece = batch.pieces[p];
  copy_block(piece, piece.target, piece.source, blockIdx.x - batch.first[p]);
}

// Many: they lie in a table on the device, which serves any operands of the same layouts.
extern "C" __global__ void __launch_bounds__(256)
    copy_boxes_table(const Piece* pieces, const unsigned* first, const Ends* ends, unsigned count,
                     const __grid_constant__ Bases bases) {
  const unsigned p = entry_of(first, count, blockIdx.x);
  const Piece& piece = pieces[p];
  copy_block(piece, bases.at[ends[p].target] + piece.target,
             bases.at[ends[p].source] + piece.source, blockIdx.x - first[p]);
}
