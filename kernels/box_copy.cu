// Batched strided box copies: one launch copies any number of boxes from wherever the GPU can read
// to wherever it can write.
//
// A box is cut beforehand into pieces of at most four dims, counted in units of 1, 2, 4, 8 or 16
// bytes, which lie dense and aligned on both sides. Blocks are dealt out by bytes: first[p] is the
// first block of piece p, and first[count] the number of all blocks.
//
// rows   Neighbouring threads copy neighbouring units of the last dim, eight units each, loads
//        before stores. Where the last dim is long both sides are fully coalesced. Runs shorter
//        than 32 bytes waste what is left of each 32-byte sector: a run of n bytes can reach n/32
//        of a copy. Where a unit lies takes a division for each dim but one, hence kernels of their
//        own for one dim and for two.
// tiles  The source is dense along one dim and the target along another. A block takes a tile of
//        them through shared memory, so that both sides are coalesced. Each thread loads all of
//        its words before it waits for the first. Rows of the tile are padded by a word, so that
//        a column of it meets every bank once.
// words  Tiles of units of 1 and 2 bytes that lie in aligned words of 4 bytes on both sides. A
//        thread takes as many rows of a word as there are units in it, and turns them over in
//        registers.
//
// README.md has the instructions that each of these takes.

#include "blocks.cuh"

struct Piece {
  unsigned long long target, source;  // addresses of the first unit
  int target_stride[4];               // bytes per step of each dim; the last dim varies fastest
  int source_stride[4];
  unsigned extent[4];                 // steps of each dim
  unsigned magic[3], shift[3];        // rows: division by extent[1], extent[2] and extent[3];
                                      // tiles: by extent[1], and the tiles along dims 2 and 3
  unsigned unit;                      // bytes: 1, 2, 4, 8 or 16
  unsigned form;                      // rows: 1, 2 or 4: the last so many dims may be longer than
};                                    // 1; or one of these, where dim 2 is dense in the source, and
                                      // dim 3 in the target:
constexpr unsigned kTiles = 8;
constexpr unsigned kWords = 9;

constexpr unsigned kInlinePieces = 40;
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

// The units first, first + kThreads and so on.
template <int kDims, unsigned kCount, typename Unit>
__device__ inline void copy_units(const Piece& piece, unsigned long long first_target,
                                  unsigned long long first_source, unsigned first,
                                  unsigned total) {
  Unit units[kCount];
  unsigned long long targets[kCount];
#pragma unroll
  for (unsigned k = 0; k < kCount; ++k) {
    // Behind the end the last unit again: loads without conditions do not wait for each other.
    const unsigned n = min(first + k * kThreads, total - 1);
    unsigned long long source = first_source;
    targets[k] = first_target;
    for_each_dim<kDims>(piece, n, [&](int dim, unsigned position) {
      targets[k] += steps(position, piece.target_stride[dim]);
      source += steps(position, piece.source_stride[dim]);
    });
    units[k] = *at<const Unit>(source);
  }
#pragma unroll
  for (unsigned k = 0; k < kCount; ++k) {
    if (first + k * kThreads < total) *at<Unit>(targets[k]) = units[k];
  }
}

template <typename Unit, int kDims>
__device__ inline void copy_rows(const Piece& piece, unsigned long long target,
                                 unsigned long long source, unsigned block) {
  const unsigned total = units_of<kDims>(piece);
  const unsigned first = block * (kThreads * kUnitsPerThread) + threadIdx.x;
  if (first >= total) return;
  if constexpr (kDims < 4 && sizeof(Unit) < 16) {
    copy_units<kDims, kUnitsPerThread, Unit>(piece, target, source, first, total);
  } else {  // eight of these would take more registers than 1,024 threads have
    constexpr unsigned kHalf = kUnitsPerThread / 2;
    copy_units<kDims, kHalf, Unit>(piece, target, source, first, total);
    if (first + kHalf * kThreads >= total) return;
    copy_units<kDims, kHalf, Unit>(piece, target, source, first + kHalf * kThreads, total);
  }
}

// A tile of kSource words along dim 2 and kTarget along dim 3, with kEach units in a word.
template <typename Word, int kEach>
struct Tile {
  static constexpr int kSource = sizeof(Word) < 4 ? 64 : 32;
  static constexpr int kTarget = sizeof(Word) == 4 && kEach == 1 ? 64 : kSource;
  static constexpr int kPadding = sizeof(Word) < 4 ? 4 / sizeof(Word) : 1;
  Word words[kEach][kSource][kTarget + kPadding];
};

// Turns over a square of units, one word for each row.
template <typename Word>
__device__ inline void turn(Word (&)[1]) {}

__device__ inline void turn(unsigned (&rows)[2]) {
  const unsigned first = __byte_perm(rows[0], rows[1], 0x5410);
  rows[1] = __byte_perm(rows[0], rows[1], 0x7632);
  rows[0] = first;
}

__device__ inline void turn(unsigned (&rows)[4]) {
  const unsigned left[2] = {__byte_perm(rows[0], rows[1], 0x5140),
                            __byte_perm(rows[2], rows[3], 0x5140)};
  const unsigned right[2] = {__byte_perm(rows[0], rows[1], 0x7362),
                             __byte_perm(rows[2], rows[3], 0x7362)};
  rows[0] = __byte_perm(left[0], left[1], 0x5410);
  rows[1] = __byte_perm(left[0], left[1], 0x7632);
  rows[2] = __byte_perm(right[0], right[1], 0x5410);
  rows[3] = __byte_perm(right[0], right[1], 0x7632);
}

template <typename Word, int kEach = 1>
__device__ inline void copy_tile(const Piece& piece, unsigned long long target,
                                 unsigned long long source, unsigned block,
                                 unsigned char* shared) {
  using Tile = Tile<Word, kEach>;
  constexpr int kShare = Tile::kSource * Tile::kTarget / kThreads;
  Tile& tile = *reinterpret_cast<Tile*>(shared);
  const unsigned size2 = piece.extent[2] / kEach, size3 = piece.extent[3] / kEach;
  const unsigned tiles2 = (size2 + Tile::kSource - 1) / Tile::kSource;
  const unsigned tiles3 = (size3 + Tile::kTarget - 1) / Tile::kTarget;
  const unsigned above3 = divided(block, piece.magic[2], piece.shift[2]);
  const unsigned above2 = divided(above3, piece.magic[1], piece.shift[1]);
  const unsigned at0 = divided(above2, piece.magic[0], piece.shift[0]);
  const unsigned at1 = above2 - at0 * piece.extent[1];
  const unsigned first2 = (above3 - above2 * tiles2) * Tile::kSource;
  const unsigned first3 = (block - above3 * tiles3) * Tile::kTarget;
  source += steps(at0, piece.source_stride[0]) + steps(at1, piece.source_stride[1]);
  target += steps(at0, piece.target_stride[0]) + steps(at1, piece.target_stride[1]);
  Word words[kShare][kEach] = {};
  {
    constexpr int kStep = kThreads / Tile::kSource;
    const unsigned x = threadIdx.x % Tile::kSource, y = threadIdx.x / Tile::kSource;
    const int rows = first2 + x < size2 ? static_cast<int>(size3 - first3 - y) : 0;
    const int stride = piece.source_stride[3];
    source += 1ull * (first2 + x) * sizeof(Word) + steps((first3 + y) * kEach, stride);
#pragma unroll
    for (int k = 0; k < kShare; ++k) {
      if (k * kStep < rows) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          words[k][j] = *at<const Word>(source + steps(k * kStep * kEach + j, stride));
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kShare; ++k) {
      turn(words[k]);
#pragma unroll
      for (int j = 0; j < kEach; ++j) tile.words[j][x][y + k * kStep] = words[k][j];
    }
  }
  __syncthreads();
  constexpr int kStep = kThreads / Tile::kTarget;
  const unsigned x = threadIdx.x % Tile::kTarget, y = threadIdx.x / Tile::kTarget;
  const int rows = first3 + x < size3 ? static_cast<int>(size2 - first2 - y) : 0;
  const int stride = piece.target_stride[2];
  target += 1ull * (first3 + x) * sizeof(Word) + steps((first2 + y) * kEach, stride);
#pragma unroll
  for (int k = 0; k < kShare; ++k) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) words[k][j] = tile.words[j][y + k * kStep][x];
  }
#pragma unroll
  for (int k = 0; k < kShare; ++k) {
    if (k * kStep < rows) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        *at<Word>(target + steps(k * kStep * kEach + j, stride)) = words[k][j];
      }
    }
  }
}

template <typename Unit>
__device__ inline void copy_piece(const Piece& piece, unsigned long long target,
                                  unsigned long long source, unsigned block,
                                  unsigned char* shared) {
  switch (piece.form) {
    case 1: copy_rows<Unit, 1>(piece, target, source, block); break;
    case 2: copy_rows<Unit, 2>(piece, target, source, block); break;
    case 4: copy_rows<Unit, 4>(piece, target, source, block); break;
    case kTiles: copy_tile<Unit>(piece, target, source, block, shared); break;
    default:
      if constexpr (sizeof(Unit) < 4) {
        copy_tile<unsigned, 4 / sizeof(Unit)>(piece, target, source, block, shared);
      }
  }
}

__device__ inline void copy_block(const Piece& piece, unsigned long long target,
                                  unsigned long long source, unsigned block) {
  __shared__ __align__(16) unsigned char shared[sizeof(Tile<ulonglong2, 1>)];
  static_assert(sizeof(Tile<unsigned, 4>) <= sizeof shared, "the largest tiles");
  switch (piece.unit) {
    case 16: copy_piece<ulonglong2>(piece, target, source, block, shared); break;
    case 8: copy_piece<unsigned long long>(piece, target, source, block, shared); break;
    case 4: copy_piece<unsigned>(piece, target, source, block, shared); break;
    case 2: copy_piece<unsigned short>(piece, target, source, block, shared); break;
    default: copy_piece<unsigned char>(piece, target, source, block, shared); break;
  }
}

// Few pieces: they travel as the launch's argument.
extern "C" __global__ void __launch_bounds__(256, 4) copy_boxes_inline(const Batch batch) {
  const unsigned p = entry_of(batch.first, batch.count, blockIdx.x);
  const Piece piece = batch.pieces[p];
  copy_block(piece, piece.target, piece.source, blockIdx.x - batch.first[p]);
}

// Many: they lie in a table on the device, which serves any operands of the same layouts.
extern "C" __global__ void __launch_bounds__(256, 4)
    copy_boxes_table(const Piece* pieces, const unsigned* first, const Ends* ends, unsigned count,
                     const __grid_constant__ Bases bases) {
  const unsigned p = entry_of(first, count, blockIdx.x);
  const Piece piece = pieces[p];
  copy_block(piece, bases.at[ends[p].target] + piece.target,
             bases.at[ends[p].source] + piece.source, blockIdx.x - first[p]);
}
