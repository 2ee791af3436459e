// Prints how the tiles of the box copy kernels lie in shared memory, one per line: bytes of a word,
// units in it, words along both sides, bytes from a row to the next one and from plane to plane.
#include "harness.h"
#include "../../kernels/box_copy.cu"

template <typename Word, int kEach>
void print() {
  using Tile = Tile<Word, kEach>;
  const Tile* tile = nullptr;
  std::printf("%zu %d %d %d %zu %zu\n", sizeof(Word), kEach, Tile::kSource, Tile::kTarget,
              sizeof tile->words[0][0], sizeof tile->words[0]);
}

int main() {
  print<unsigned char, 1>();
  print<unsigned short, 1>();
  print<unsigned, 1>();
  print<unsigned long long, 1>();
  print<ulonglong2, 1>();
  print<unsigned, 2>();
  print<unsigned, 4>();
  return 0;
}
