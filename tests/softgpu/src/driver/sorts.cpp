// Sorts, in the place of Thrust, whose compiled kernels a CPU cannot run: in CuPy's orders, through
// scratch memory, in stream order.
#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

#include "counters.h"
#include "devices.h"
#include "streams.h"

namespace softgpu {
namespace {

using Half = _Float16;

template <class T>
struct is_complex : std::false_type {};
template <class F>
struct is_complex<std::complex<F>> : std::true_type {};

// NaNs come last, all alike.
template <class T>
bool real_less(T a, T b) {
  if (a != a) return false;
  return b != b || a < b;
}

// By the placement of NaNs first: none, in the imaginary part, in the real one, in both.
template <class F>
bool complex_less(const std::complex<F>& a, const std::complex<F>& b) {
  auto nans = [](const std::complex<F>& x) {
    return 2 * (x.real() != x.real()) + (x.imag() != x.imag());
  };
  const int of_a = nans(a), of_b = nans(b);
  if (of_a != of_b) return of_a < of_b;
  switch (of_a) {
    case 0: return a.real() != b.real() ? a.real() < b.real() : a.imag() < b.imag();
    case 1: return a.real() < b.real();
    case 2: return a.imag() < b.imag();
    default: return false;
  }
}

// The order of rows of several dims, and of lexsort.
template <class T>
bool less(const T& a, const T& b) {
  if constexpr (is_complex<T>::value)
    return complex_less(a, b);
  else
    return real_less(a, b);
}

// The integer that stands for a number in a radix sort: NaNs by their sign, both zeros alike.
template <class F>
auto radix_key(F value) {
  using Bits = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;
  const Bits sign = Bits(1) << (8 * sizeof(F) - 1);
  Bits bits;
  memcpy(&bits, &value, sizeof bits);
  if (bits == sign) bits = 0;
  return bits & sign ? Bits(~bits) : Bits(bits | sign);
}

// The order of one row: Thrust sorts float and double by their bits there.
template <class T>
bool less_in_one_row(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    return radix_key(a) < radix_key(b);
  else
    return less(a, b);
}

struct Rows {
  size_t count;
  size_t length;
  bool one;
  size_t size() const { return count * length; }
};

template <class T>
void sort(void* data, void* scratch, const Rows& rows) {
  memcpy(scratch, data, rows.size() * sizeof(T));
  T* first = static_cast<T*>(scratch);
  for (size_t n = 0; n < rows.count; ++n, first += rows.length)
    std::stable_sort(first, first + rows.length, rows.one ? less_in_one_row<T> : less<T>);
}

template <class T>
void sort_indices(size_t* indices, const T* keys, size_t length,
                  bool (*order)(const T&, const T&)) {
  std::stable_sort(indices, indices + length,
                   [=](size_t a, size_t b) { return order(keys[a], keys[b]); });
}

template <class T>
void argsort(const void* data, void* scratch, const Rows& rows) {
  auto* indices = static_cast<size_t*>(scratch);
  auto* keys = static_cast<const T*>(data);
  for (size_t n = 0; n < rows.count; ++n) {
    std::iota(indices, indices + rows.length, size_t(0));
    sort_indices<T>(indices, keys, rows.length, rows.one ? less_in_one_row<T> : less<T>);
    indices += rows.length;
    keys += rows.length;
  }
}

template <class T>
void lexsort(const void* keys, void* scratch, size_t count, size_t length) {
  auto* indices = static_cast<size_t*>(scratch);
  std::iota(indices, indices + length, size_t(0));
  for (size_t n = 0; n < count; ++n)
    sort_indices<T>(indices, static_cast<const T*>(keys) + n * length, length, less<T>);
}

// Calls a template of a type by CuPy's number for it.
template <class Function>
void with_type(int type, Function&& call) {
  switch (type) {
    case 0: return call(int8_t());
    case 1: return call(uint8_t());
    case 2: return call(int16_t());
    case 3: return call(uint16_t());
    case 4: return call(int32_t());
    case 5: return call(uint32_t());
    case 6: return call(int64_t());
    case 7: return call(uint64_t());
    case 8: return call(Half());
    case 9: return call(float());
    case 10: return call(double());
    case 11: return call(std::complex<float>());
    case 12: return call(std::complex<double>());
    case 13: return call(bool());
  }
}

// Two pieces of work, as a sort is several kernels: what is not ordered may come in between.
void through_scratch(void* handle, std::function<void()> sort, void* to, void* scratch,
                     size_t nbytes) {
  ++counters.library_calls;
  Stream* stream = stream_of(static_cast<cudaStream_t>(handle));
  give(stream, {std::move(sort)});
  give(stream, {[=] { memcpy(to, scratch, nbytes); }});
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

// `scratch` has room for a copy of the data.
SOFTGPU_EXPORT void softgpu_sort(int type, void* data, size_t rows, size_t length, bool one,
                                 void* stream, void* scratch) {
  call([&] {
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      const Rows all{rows, length, one};
      through_scratch(stream, [=] { sort<T>(data, scratch, all); }, data, scratch,
                      all.size() * sizeof(T));
    });
    return cudaSuccess;
  });
}

// `scratch` has room for the indices, and so for lexsort.
SOFTGPU_EXPORT void softgpu_argsort(int type, size_t* indices, void* data, size_t rows,
                                    size_t length, bool one, void* stream, void* scratch) {
  call([&] {
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      const Rows all{rows, length, one};
      through_scratch(stream, [=] { argsort<T>(data, scratch, all); }, indices, scratch,
                      all.size() * sizeof(size_t));
    });
    return cudaSuccess;
  });
}

SOFTGPU_EXPORT void softgpu_lexsort(int type, size_t* indices, void* keys, size_t count,
                                    size_t length, void* stream, void* scratch) {
  call([&] {
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      through_scratch(stream, [=] { lexsort<T>(keys, scratch, count, length); }, indices, scratch,
                      length * sizeof(size_t));
    });
    return cudaSuccess;
  });
}
