// Runs the box copy kernels on the CPU, on cases from standard input, and compares with what the
// cases say must come out. Memory is allocated to the byte, so that a sanitizer sees every miss.
#include "harness.h"
#include "../../kernels/box_copy.cu"

struct Header {
  std::uint32_t pieces, blocks;
  std::uint64_t source_bytes, target_bytes;
};

int main() {
  Header header;
  for (int number = 0; take(&header, sizeof header); ++number) {
    std::vector<Piece> pieces(header.pieces);
    std::vector<unsigned> first(header.pieces + 1);
    auto source = allocate(header.source_bytes), target = allocate(header.target_bytes);
    std::vector<unsigned char> before(header.target_bytes), expected(header.target_bytes);
    if (!take(pieces.data(), header.pieces * sizeof(Piece)) ||
        !take(first.data(), first.size() * sizeof(unsigned)) ||
        !take(source.get(), header.source_bytes) || !take(before.data(), before.size()) ||
        !take(expected.data(), expected.size())) {
      std::fprintf(stderr, "case %d is cut short\n", number);
      return 2;
    }
    Bases bases{};
    bases.at[0] = reinterpret_cast<std::uintptr_t>(source.get());
    bases.at[kMostOperands - 1] = reinterpret_cast<std::uintptr_t>(target.get());
    const std::vector<Ends> ends(header.pieces, Ends{kMostOperands - 1, 0});
    // Only tiles have barriers, and threads that wait for each other take far longer.
    const bool tiled = std::any_of(pieces.begin(), pieces.end(),
                                   [](const Piece& piece) { return piece.form >= kTiles; });
    const auto launch = [&](unsigned blocks, unsigned threads, const auto& kernel) {
      tiled ? shim_launch(blocks, threads, kernel) : shim_launch_apart(blocks, threads, kernel);
    };
    for (int inlined = 0; inlined < 2; ++inlined) {
      std::memcpy(target.get(), before.data(), before.size());
      if (inlined) {
        if (header.pieces > kInlinePieces) continue;
        Batch batch{};
        std::memcpy(batch.pieces, pieces.data(), pieces.size() * sizeof(Piece));
        for (unsigned p = 0; p < header.pieces; ++p) {
          batch.pieces[p].source += bases.at[0];
          batch.pieces[p].target += bases.at[kMostOperands - 1];
        }
        std::memcpy(batch.first, first.data(), first.size() * sizeof(unsigned));
        batch.count = header.pieces;
        launch(header.blocks, kThreads, [&] { copy_boxes_inline(batch); });
      } else {
        launch(header.blocks, kThreads,
               [&] {
                 copy_boxes_table(pieces.data(), first.data(), ends.data(), header.pieces, bases);
               });
      }
      if (std::memcmp(target.get(), expected.data(), expected.size()) != 0) {
        std::fprintf(stderr, "case %d is wrong\n", number);
        return 1;
      }
    }
  }
  std::printf("%zu %zu\n", sizeof(Piece), sizeof(Batch));
  return 0;
}
