// What CuPy's module for sorts calls, by the sorts of the driver.
#include "cupy_thrust.h"

#include <cstddef>
#include <new>

extern "C" {
char* cupy_malloc(void* memory, size_t nbytes);
int cupy_free(void* memory, char* start);
void softgpu_sort(int type, void* data, size_t rows, size_t length, bool one, void* stream,
                  void* scratch);
void softgpu_argsort(int type, size_t* indices, void* data, size_t rows, size_t length, bool one,
                     void* stream, void* scratch);
void softgpu_lexsort(int type, size_t* indices, void* keys, size_t count, size_t length,
                     void* stream, void* scratch);
}

namespace {

// Temporary memory from CuPy's allocator; as Thrust does, it is given back when all was launched.
class Scratch {
 public:
  Scratch(void* memory, size_t nbytes) : memory_(memory), start_(cupy_malloc(memory, nbytes)) {
    if (!start_) throw std::bad_alloc();
  }
  ~Scratch() { cupy_free(memory_, start_); }
  void* get() const { return start_; }

 private:
  void* memory_;
  char* start_;
};

size_t size_of(const std::vector<ptrdiff_t>& shape) {
  size_t size = 1;
  for (ptrdiff_t n : shape) size *= n;
  return size;
}

const size_t kLargest = 16;  // bytes of the largest type

}  // namespace

void thrust_sort(int type, void* data, size_t*, const std::vector<ptrdiff_t>& shape,
                 intptr_t stream, void* memory) {
  const size_t size = size_of(shape);
  if (!size) return;
  Scratch scratch(memory, size * kLargest);
  softgpu_sort(type, data, size / shape.back(), shape.back(), shape.size() == 1,
               reinterpret_cast<void*>(stream), scratch.get());
}

void thrust_argsort(int type, size_t* indices, void* data, void*,
                    const std::vector<ptrdiff_t>& shape, intptr_t stream, void* memory) {
  const size_t size = size_of(shape);
  if (!size) return;
  Scratch scratch(memory, size * sizeof(size_t));
  softgpu_argsort(type, indices, data, size / shape.back(), shape.back(), shape.size() == 1,
                  reinterpret_cast<void*>(stream), scratch.get());
}

void thrust_lexsort(int type, size_t* indices, void* keys, size_t count, size_t length,
                    intptr_t stream, void* memory) {
  if (!length) return;
  Scratch scratch(memory, length * sizeof(size_t));
  softgpu_lexsort(type, indices, keys, count, length, reinterpret_cast<void*>(stream),
                  scratch.get());
}
