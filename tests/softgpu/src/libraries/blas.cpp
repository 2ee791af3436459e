// cuBLAS: products of matrices, and the batched functions that CuPy's linalg takes from it.
//
// Sums are made in the type that the call asks for, one element after the other.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "lapack.h"
#include "library.h"

namespace softgpu {
namespace {

enum Status { kSuccess = 0, kInvalidValue = 7, kNotSupported = 15 };
enum Type {
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kComplexFloat = 4,
  kComplexDouble = 5,
  kBFloat16 = 14,
};
enum Compute { kCompute64 = 70, kCompute64Pedantic = 71 };

struct Handle {
  void* stream = nullptr;
  int math_mode = 0;
  int pointer_mode = 0;
};

size_t size_of(int type) {
  switch (type) {
    case kHalf: case kBFloat16: return 2;
    case kFloat: return 4;
    case kDouble: case kComplexFloat: return 8;
    default: return 16;
  }
}

template <class To, class From>
To convert(From value) {
  return static_cast<To>(value);
}

// Calls a function with a zero of a type.
template <class Function>
void with_type(int type, Function&& call) {
  switch (type) {
    case kFloat: return call(float());
    case kDouble: return call(double());
    case kHalf: return call(Half());
    case kBFloat16: return call(BFloat16());
    case kComplexFloat: return call(C());
    case kComplexDouble: return call(Z());
  }
}

template <class T>
T conjugate(T value) {
  if constexpr (is_complex<T>)
    return std::conj(value);
  else
    return value;
}

// A matrix in memory, by columns.
struct Matrix {
  const void* data;
  int type;
  long ld;
};

// The matrix op(a), as `Sum`s by columns; op is 0 for itself, 1 transposed, 2 conjugated, too.
template <class Sum>
std::vector<Sum> load(const Matrix& a, int op, long rows, long columns) {
  std::vector<Sum> made(size_t(rows) * columns);
  with_type(a.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_complex<T> <= is_complex<Sum>) {
      auto* data = static_cast<const T*>(a.data);
      for (long j = 0; j < columns; ++j)
        for (long i = 0; i < rows; ++i) {
          const Sum value = convert<Sum>(op ? data[j + i * a.ld] : data[i + j * a.ld]);
          made[i + j * rows] = op == 2 ? conjugate(value) : value;
        }
    }
  });
  return made;
}

template <class Sum>
struct Product {
  int op_a, op_b;
  long m, n, k;
  Sum alpha, beta;

  void run(const Matrix& a, const Matrix& b, void* c, int type, long ld) const {
    const auto left = load<Sum>(a, op_a, m, k), right = load<Sum>(b, op_b, k, n);
    std::vector<Sum> column(m);
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (is_complex<T> == is_complex<Sum>) {
        for (long j = 0; j < n; ++j) {
          std::fill(column.begin(), column.end(), Sum(0));
          for (long l = 0; l < k; ++l)
            for (long i = 0; i < m; ++i) column[i] += left[i + l * m] * right[l + j * k];
          T* to = static_cast<T*>(c) + j * ld;
          for (long i = 0; i < m; ++i) {
            Sum value = alpha * column[i];
            if (beta != Sum(0)) value += beta * convert<Sum>(to[i]);
            to[i] = convert<T>(value);
          }
        }
      }
    });
  }
};

// Calls a function with a zero of the type that sums are made in.
template <class Function>
void with_sum(int type, int compute, Function&& call) {
  if (type == kComplexFloat) return call(C());
  if (type == kComplexDouble) return call(Z());
  if (type == kDouble || compute == kCompute64 || compute == kCompute64Pedantic)
    return call(double());
  return call(float());
}

const char* at(const void* start, long long elements, int type) {
  return static_cast<const char*>(start) + elements * static_cast<long long>(size_of(type));
}

template <class Sum>
int gemm_batched(Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                 void** a, int lda, void** b, int ldb, const void* beta, void** c, int ldc,
                 int count, int type) {
  if (handle->pointer_mode) return kNotSupported;
  const Product<Sum> product{op_a, op_b, m, n, k, *static_cast<const Sum*>(alpha),
                             *static_cast<const Sum*>(beta)};
  give(handle->stream, [=] {
    for (int i = 0; i < count; ++i)
      product.run({a[i], type, lda}, {b[i], type, ldb}, c[i], type, ldc);
  });
  return kSuccess;
}

int gemm_strided(Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                 Matrix a, long long stride_a, Matrix b, long long stride_b, const void* beta,
                 void* c, int type, long ld, long long stride_c, int count, int compute) {
  if (handle->pointer_mode) return kNotSupported;
  with_sum(type, compute, [&](auto zero) {
    using Sum = decltype(zero);
    const Product<Sum> product{op_a, op_b, m, n, k, *static_cast<const Sum*>(alpha),
                               *static_cast<const Sum*>(beta)};
    give(handle->stream, [=] {
      for (long long i = 0; i < count; ++i) {
        const Matrix left{at(a.data, i * stride_a, a.type), a.type, a.ld};
        const Matrix right{at(b.data, i * stride_b, b.type), b.type, b.ld};
        product.run(left, right, const_cast<char*>(at(c, i * stride_c, type)), type, ld);
      }
    });
  });
  return kSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT int cublasCreate_v2(Handle** made) {
  *made = new Handle;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasGetVersion_v2(Handle*, int* version) {
  *version = 10000 * SOFTGPU_CUDA_MAJOR + 100 * SOFTGPU_CUDA_MINOR;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasGetStream_v2(Handle* handle, void** stream) {
  *stream = handle->stream;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasSetMathMode(Handle* handle, int mode) {
  handle->math_mode = mode;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasGetMathMode(Handle* handle, int* mode) {
  *mode = handle->math_mode;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasSetPointerMode_v2(Handle* handle, int mode) {
  handle->pointer_mode = mode;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  *mode = handle->pointer_mode;
  return kSuccess;
}

SOFTGPU_EXPORT int cublasGemmEx(Handle* handle, int op_a, int op_b, int m, int n, int k,
                                const void* alpha, const void* a, int type_a, int lda,
                                const void* b, int type_b, int ldb, const void* beta, void* c,
                                int type_c, int ldc, int compute, int) {
  return gemm_strided(handle, op_a, op_b, m, n, k, alpha, {a, type_a, lda}, 0, {b, type_b, ldb}, 0,
                      beta, c, type_c, ldc, 0, 1, compute);
}

SOFTGPU_EXPORT int cublasSgemmEx(Handle* handle, int op_a, int op_b, int m, int n, int k,
                                 const void* alpha, const void* a, int type_a, int lda,
                                 const void* b, int type_b, int ldb, const void* beta, void* c,
                                 int type_c, int ldc) {
  return gemm_strided(handle, op_a, op_b, m, n, k, alpha, {a, type_a, lda}, 0, {b, type_b, ldb}, 0,
                      beta, c, type_c, ldc, 0, 1, 0);
}

SOFTGPU_EXPORT int cublasGemmStridedBatchedEx(
    Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
    int type_a, int lda, long long stride_a, const void* b, int type_b, int ldb,
    long long stride_b, const void* beta, void* c, int type_c, int ldc, long long stride_c,
    int count, int compute, int) {
  return gemm_strided(handle, op_a, op_b, m, n, k, alpha, {a, type_a, lda}, stride_a,
                      {b, type_b, ldb}, stride_b, beta, c, type_c, ldc, stride_c, count, compute);
}

#define SOFTGPU_GEMM(letter, T, type)                                                              \
  SOFTGPU_EXPORT int cublas##letter##gemm_v2(                                                      \
      Handle* handle, int op_a, int op_b, int m, int n, int k, const T* alpha, const T* a,         \
      int lda, const T* b, int ldb, const T* beta, T* c, int ldc) {                                \
    return gemm_strided(handle, op_a, op_b, m, n, k, alpha, {a, type, lda}, 0, {b, type, ldb},     \
                        0, beta, c, type, ldc, 0, 1, 0);                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cublas##letter##gemmBatched(                                                  \
      Handle* handle, int op_a, int op_b, int m, int n, int k, const T* alpha, void** a,           \
      int lda, void** b, int ldb, const T* beta, void** c, int ldc, int count) {                   \
    return gemm_batched<T>(handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,       \
                           count, type);                                                           \
  }
SOFTGPU_GEMM(S, float, kFloat)
SOFTGPU_GEMM(D, double, kDouble)
SOFTGPU_GEMM(C, C, kComplexFloat)
SOFTGPU_GEMM(Z, Z, kComplexDouble)

// Without pivots none are exchanged, which LAPACK has no routine for.
template <class T>
static int factor_without_pivots(int n, T* a, int lda) {
  int info = 0;
  for (int k = 0; k < n; ++k) {
    const T pivot = a[k + k * lda];
    if (pivot == T(0)) {
      if (!info) info = k + 1;
      continue;
    }
    for (int i = k + 1; i < n; ++i) a[i + k * lda] /= pivot;
    for (int j = k + 1; j < n; ++j)
      for (int i = k + 1; i < n; ++i) a[i + j * lda] -= a[i + k * lda] * a[k + j * lda];
  }
  return info;
}

#define SOFTGPU_BATCHED(letter, T)                                                                 \
  SOFTGPU_EXPORT int cublas##letter##getrfBatched(Handle* handle, int n, T** a, int lda,           \
                                                  int* pivots, int* info, int count) {             \
    give(handle->stream, [=] {                                                                     \
      for (int i = 0; i < count; ++i)                                                              \
        info[i] = pivots ? getrf(n, n, a[i], lda, pivots + i * n)                                  \
                         : factor_without_pivots(n, a[i], lda);                                    \
    });                                                                                            \
    return kSuccess;                                                                               \
  }                                                                                                \
  SOFTGPU_EXPORT int cublas##letter##getriBatched(Handle* handle, int n, T** a, int lda,           \
                                                  const int* pivots, T** c, int ldc, int* info,    \
                                                  int count) {                                     \
    if (!pivots) return kNotSupported;                                                             \
    give(handle->stream, [=] {                                                                     \
      for (int i = 0; i < count; ++i) {                                                            \
        for (int j = 0; j < n; ++j) std::copy_n(a[i] + j * lda, n, c[i] + j * ldc);                \
        info[i] = getri(n, c[i], ldc, pivots + i * n);                                             \
      }                                                                                            \
    });                                                                                            \
    return kSuccess;                                                                               \
  }                                                                                                \
  /* Here "info" is on the host. */                                                                \
  SOFTGPU_EXPORT int cublas##letter##getrsBatched(Handle* handle, int op, int n, int columns,      \
                                                  T** a, int lda, const int* pivots, T** b,        \
                                                  int ldb, int* info, int count) {                 \
    *info = 0;                                                                                     \
    if (!pivots) return kNotSupported;                                                             \
    give(handle->stream, [=] {                                                                     \
      for (int i = 0; i < count; ++i)                                                              \
        getrs(op_of(op), n, columns, a[i], lda, pivots + i * n, b[i], ldb);                        \
    });                                                                                            \
    return kSuccess;                                                                               \
  }                                                                                                \
  SOFTGPU_EXPORT int cublas##letter##trsm_v2(Handle* handle, int side, int part, int op,           \
                                             int diagonal, int m, int n, const T* alpha,           \
                                             const T* a, int lda, T* b, int ldb) {                 \
    if (handle->pointer_mode) return kNotSupported;                                                \
    give(handle->stream, [=, factor = *alpha] {                                                    \
      trsm(side_of(side), part_of(part), op_of(op), diagonal_of(diagonal), m, n, factor, a, lda,   \
           b, ldb);                                                                                \
    });                                                                                            \
    return kSuccess;                                                                               \
  }
SOFTGPU_BATCHED(S, float)
SOFTGPU_BATCHED(D, double)
SOFTGPU_BATCHED(C, C)
SOFTGPU_BATCHED(Z, Z)
