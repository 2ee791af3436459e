// Elementwise merge of k dense arrays of n elements: output = op(...op(op(a0, a1), a2)..., a(k-1)),
// in that order and with NumPy's results, so that they do not depend on timing.
//
// A thread takes 16 bytes of the output, loads the same bytes of each input in turn and stores once;
// the loop over the inputs is unrolled by four, as its loads do not wait for each other. Every byte
// of the inputs is read once and of the output written once, fully coalesced: expected near the
// bandwidth of a device-to-device copy.
// The exceptions are arrays that are not aligned to 16 bytes: their elements are loaded one by one,
// neighbouring threads at neighbouring elements, so that those of 1 and 2 bytes are expected to be
// bound by the number of loads.
//
// The output may be one of the inputs: a thread has read its elements of all inputs before it
// writes. The addresses travel as the launch's argument. Signed integers are summed and multiplied
// as unsigned ones, whose overflow is defined and has the same bits; booleans are bytes 0 and 1,
// for which all six operations are Or and And.

#include "blocks.cuh"

#ifdef GPUSHARD_HALF
#include <cuda_fp16.h>
#endif

constexpr unsigned kMostInputs = 64;

struct Merge {
  unsigned long long output;               // address
  unsigned long long inputs[kMostInputs];  // addresses, in the order of the merge
  unsigned long long elements;             // of each array
  unsigned count;                          // inputs
  unsigned wide;                           // 1: all addresses are multiples of 16
};

template <typename Real>
struct Complex {
  Real real, imaginary;
};

template <typename T>
__device__ inline T added(T a, T b) {
  return static_cast<T>(a + b);
}

template <typename T>
__device__ inline T multiplied(T a, T b) {
  return static_cast<T>(a * b);
}

// Promoted to int, the product of two of them could overflow.
__device__ inline unsigned short multiplied(unsigned short a, unsigned short b) {
  return static_cast<unsigned short>(1u * a * b);
}

template <typename T>
__device__ inline bool unordered(T a) {
  return a != a;
}

template <typename T>
__device__ inline bool less(T a, T b) {
  return a < b;
}

template <typename Real>
__device__ inline Complex<Real> added(Complex<Real> a, Complex<Real> b) {
  return {a.real + b.real, a.imaginary + b.imaginary};
}

// Rounded after each step: whether a compiler fuses them must not show in the result.
__device__ inline Complex<float> multiplied(Complex<float> a, Complex<float> b) {
  return {__fsub_rn(__fmul_rn(a.real, b.real), __fmul_rn(a.imaginary, b.imaginary)),
          __fadd_rn(__fmul_rn(a.real, b.imaginary), __fmul_rn(a.imaginary, b.real))};
}

__device__ inline Complex<double> multiplied(Complex<double> a, Complex<double> b) {
  return {__dsub_rn(__dmul_rn(a.real, b.real), __dmul_rn(a.imaginary, b.imaginary)),
          __dadd_rn(__dmul_rn(a.real, b.imaginary), __dmul_rn(a.imaginary, b.real))};
}

template <typename Real>
__device__ inline bool unordered(Complex<Real> a) {
  return a.real != a.real || a.imaginary != a.imaginary;
}

// By the real part first, as NumPy does.
template <typename Real>
__device__ inline bool less(Complex<Real> a, Complex<Real> b) {
  return a.real < b.real || (a.real == b.real && a.imaginary < b.imaginary);
}

#ifdef GPUSHARD_HALF
// The float result rounded once more is the correctly rounded half: S. Figueroa, "When is double
// rounding innocuous?", 1995.
__device__ inline __half added(__half a, __half b) {
  return __float2half_rn(__half2float(a) + __half2float(b));
}

__device__ inline __half multiplied(__half a, __half b) {
  return __float2half_rn(__half2float(a) * __half2float(b));
}

__device__ inline bool unordered(__half a) { return unordered(__half2float(a)); }

__device__ inline bool less(__half a, __half b) { return __half2float(a) < __half2float(b); }
#endif

struct Sum {
  template <typename T>
  static __device__ T of(T a, T b) {
    return added(a, b);
  }
};

struct Prod {
  template <typename T>
  static __device__ T of(T a, T b) {
    return multiplied(a, b);
  }
};

// A NaN on either side is the result, the first of two.
struct Min {
  template <typename T>
  static __device__ T of(T a, T b) {
    return unordered(a) || !(unordered(b) || less(b, a)) ? a : b;
  }
};

struct Max {
  template <typename T>
  static __device__ T of(T a, T b) {
    return unordered(a) || !(unordered(b) || less(a, b)) ? a : b;
  }
};

struct And {
  template <typename T>
  static __device__ T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Or {
  template <typename T>
  static __device__ T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

// What a thread loads and stores at once.
template <typename T>
union Vector {
  ulonglong2 bits;
  T at[16 / sizeof(T)];
};

template <typename Op, typename T>
__device__ inline void merge_vector(const Merge& merge, unsigned long long first) {
  const unsigned long long offset = first * sizeof(T);
  Vector<T> result;
  result.bits = *reinterpret_cast<const ulonglong2*>(merge.inputs[0] + offset);
#pragma unroll 4
  for (unsigned i = 1; i < merge.count; ++i) {
    Vector<T> next;
    next.bits = *reinterpret_cast<const ulonglong2*>(merge.inputs[i] + offset);
#pragma unroll
    for (unsigned k = 0; k < 16 / sizeof(T); ++k) {
      result.at[k] = Op::of(result.at[k], next.at[k]);
    }
  }
  *reinterpret_cast<ulonglong2*>(merge.output + offset) = result.bits;
}

template <typename Op, typename T>
__device__ inline void merge_element(const Merge& merge, unsigned long long at) {
  const unsigned long long offset = at * sizeof(T);
  T result = *reinterpret_cast<const T*>(merge.inputs[0] + offset);
#pragma unroll 4
  for (unsigned i = 1; i < merge.count; ++i) {
    result = Op::of(result, *reinterpret_cast<const T*>(merge.inputs[i] + offset));
  }
  *reinterpret_cast<T*>(merge.output + offset) = result;
}

template <typename Op, typename T>
__global__ void __launch_bounds__(256) merge_arrays(const Merge merge) {
  constexpr unsigned kElements = 16 / sizeof(T);
  const unsigned long long block = blockIdx.x * (1ull * kThreads * kElements);
  const unsigned long long first = block + threadIdx.x * kElements;
  if (merge.wide && first + kElements <= merge.elements) {
    merge_vector<Op, T>(merge, first);
    return;
  }
  // Without full vectors neighbours take neighbouring elements; the tail has one thread to itself.
  const unsigned long long start = merge.wide ? first : block + threadIdx.x;
  const unsigned step = merge.wide ? 1 : kThreads;
  for (unsigned k = 0; k < kElements; ++k) {
    const unsigned long long at = start + k * step;
    if (at < merge.elements) merge_element<Op, T>(merge, at);
  }
}
