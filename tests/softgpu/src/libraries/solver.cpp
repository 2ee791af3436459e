// cuSOLVER's dense functions, by LAPACK, in stream order.
//
// Each writes its "info" to device memory, where CuPy may look at it. Room for work is asked for
// and not used, as LAPACK's comes from the host.

#include "lapack.h"
#include "library.h"

namespace softgpu {
namespace {

enum Status { kSuccess = 0, kInvalidValue = 3, kNotSupported = 9 };
enum Type { kFloat = 0, kDouble = 1, kComplexFloat = 4, kComplexDouble = 5 };

const int kWork = 256;  // elements; real libraries need some, too

struct Handle {
  void* stream = nullptr;
};

// Calls a function with a zero of a type.
template <class Function>
int with_type(int type, Function&& call) {
  switch (type) {
    case kFloat: return call(float());
    case kDouble: return call(double());
    case kComplexFloat: return call(C());
    case kComplexDouble: return call(Z());
    default: return kNotSupported;
  }
}

// Runs a function that returns "info" when its turn comes.
template <class Function>
int later(Handle* handle, int* info, Function&& compute) {
  give(handle->stream, [=]() mutable { *info = compute(); });
  return kSuccess;
}

template <class T>
struct Svd {
  int m, n;
  T* a;
  int lda;
  Real<T>* s;
  T *u, *v;  // v, not its conjugate transpose
  int ldu, ldv;

  // All vectors with job 'A', those of the smaller side with 'S', none with 'N'.
  int run(char job) const {
    const int small = std::min(m, n), rows = job == 'A' ? n : small;
    std::vector<T> vh(size_t(std::max(1, rows)) * n);
    const int info = gesvd(job, job, m, n, a, lda, s, u, std::max(1, ldu), vh.data(),
                           std::max(1, rows));
    if (job == 'N') return info;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < n; ++j) {
        T value = vh[i + size_t(j) * rows];
        if constexpr (is_complex<T>) value = std::conj(value);
        v[j + size_t(i) * ldv] = value;
      }
    return info;
  }
};

// The job of the functions that are given whether to compute vectors, and how many.
char job_of_svd(int mode, int economical) { return mode == 0 ? 'N' : economical ? 'S' : 'A'; }

int room(int* length) {
  *length = kWork;
  return kSuccess;
}

int room(size_t* on_device, size_t* on_host) {
  *on_device = *on_host = kWork;
  return kSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT int cusolverDnCreate(Handle** made) {
  *made = new Handle;
  return kSuccess;
}

SOFTGPU_EXPORT int cusolverDnDestroy(Handle* handle) {
  delete handle;
  return kSuccess;
}

SOFTGPU_EXPORT int cusolverDnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return kSuccess;
}

SOFTGPU_EXPORT int cusolverDnGetStream(Handle* handle, void** stream) {
  *stream = handle->stream;
  return kSuccess;
}

// Version 11.7.5 is that of CUDA 12.9, 12.0.4 that of CUDA 13.0.
SOFTGPU_EXPORT int cusolverGetProperty(int which, int* value) {
  const int version[] = {SOFTGPU_CUDA_MAJOR - 1, SOFTGPU_CUDA_MAJOR > 12 ? 0 : 7,
                         SOFTGPU_CUDA_MAJOR > 12 ? 4 : 5};
  *value = version[which];
  return kSuccess;
}

// Parameters of methods that are not used here: a place for each.
#define SOFTGPU_PARAMETERS(create, destroy)                                                        \
  SOFTGPU_EXPORT int create(void** made) {                                                         \
    *made = new char;                                                                              \
    return kSuccess;                                                                               \
  }                                                                                                \
  SOFTGPU_EXPORT int destroy(void* gone) {                                                         \
    delete static_cast<char*>(gone);                                                               \
    return kSuccess;                                                                               \
  }
SOFTGPU_PARAMETERS(cusolverDnCreateParams, cusolverDnDestroyParams)
SOFTGPU_PARAMETERS(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)
SOFTGPU_PARAMETERS(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)

// For the letter of a type and the names that differ between real and complex.
#define SOFTGPU_SOLVER(X, o, r, sy, T)                                                             \
  SOFTGPU_EXPORT int cusolverDn##X##getrf_bufferSize(Handle*, int, int, T*, int, int* length) {    \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##getrf(Handle* handle, int m, int n, T* a, int lda, T*,         \
                                          int* pivots, int* info) {                                \
    return later(handle, info, [=] {                                                               \
      std::vector<int> own(std::max(1, std::min(m, n)));                                           \
      return getrf(m, n, a, lda, pivots ? pivots : own.data());                                    \
    });                                                                                            \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##getrs(Handle* handle, int op, int n, int columns, const T* a,  \
                                          int lda, const int* pivots, T* b, int ldb, int* info) {  \
    return later(handle, info,                                                                     \
                 [=] { return getrs(op_of(op), n, columns, a, lda, pivots, b, ldb); });            \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##potrf_bufferSize(Handle*, int, int, T*, int, int* length) {    \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##potrf(Handle* handle, int part, int n, T* a, int lda, T*,      \
                                          int, int* info) {                                        \
    return later(handle, info, [=] { return potrf(part_of(part), n, a, lda); });                   \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##potrs(Handle* handle, int part, int n, int columns,            \
                                          const T* a, int lda, T* b, int ldb, int* info) {         \
    return later(handle, info,                                                                     \
                 [=] { return potrs(part_of(part), n, columns, a, lda, b, ldb); });                \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##potrfBatched(Handle* handle, int part, int n, T** a, int lda,  \
                                                 int* info, int count) {                           \
    give(handle->stream, [=] {                                                                     \
      for (int i = 0; i < count; ++i) info[i] = potrf(part_of(part), n, a[i], lda);                \
    });                                                                                            \
    return kSuccess;                                                                               \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##potrsBatched(Handle* handle, int part, int n, int columns,     \
                                                 T** a, int lda, T** b, int ldb, int* info,        \
                                                 int count) {                                      \
    return later(handle, info, [=] {                                                               \
      for (int i = 0; i < count; ++i) potrs(part_of(part), n, columns, a[i], lda, b[i], ldb);      \
      return 0;                                                                                    \
    });                                                                                            \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##geqrf_bufferSize(Handle*, int, int, T*, int, int* length) {    \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##geqrf(Handle* handle, int m, int n, T* a, int lda, T* tau,     \
                                          T*, int, int* info) {                                    \
    return later(handle, info, [=] { return geqrf(m, n, a, lda, tau); });                          \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##o##r##gqr_bufferSize(Handle*, int, int, int, const T*, int,    \
                                                       const T*, int* length) {                    \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##o##r##gqr(Handle* handle, int m, int n, int k, T* a, int lda,  \
                                            const T* tau, T*, int, int* info) {                    \
    return later(handle, info, [=] { return orgqr(m, n, k, a, lda, tau); });                       \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##o##r##mqr_bufferSize(Handle*, int, int, int, int, int,         \
                                                       const T*, int, const T*, const T*, int,     \
                                                       int* length) {                              \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##o##r##mqr(Handle* handle, int side, int op, int m, int n,      \
                                            int k, const T* a, int lda, const T* tau, T* c,        \
                                            int ldc, T*, int, int* info) {                         \
    return later(handle, info, [=] {                                                               \
      return ormqr(side_of(side), op_of(op), m, n, k, a, lda, tau, c, ldc);                        \
    });                                                                                            \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##sy##evd_bufferSize(Handle*, int, int, int, const T*, int,      \
                                                       const Real<T>*, int* length) {              \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##sy##evd(Handle* handle, int mode, int part, int n, T* a,       \
                                            int lda, Real<T>* values, T*, int, int* info) {        \
    return later(handle, info,                                                                     \
                 [=] { return syevd(job_of(mode), part_of(part), n, a, lda, values); });           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##sy##evj_bufferSize(Handle*, int, int, int, const T*, int,      \
                                                       const Real<T>*, int* length, void*) {       \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##sy##evj(Handle* handle, int mode, int part, int n, T* a,       \
                                            int lda, Real<T>* values, T*, int, int* info,          \
                                            void*) {                                               \
    return later(handle, info,                                                                     \
                 [=] { return syevd(job_of(mode), part_of(part), n, a, lda, values); });           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##sy##evjBatched_bufferSize(                                     \
      Handle*, int, int, int, const T*, int, const Real<T>*, int* length, void*, int) {            \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##sy##evjBatched(Handle* handle, int mode, int part, int n,      \
                                                   T* a, int lda, Real<T>* values, T*, int,        \
                                                   int* info, void*, int count) {                  \
    give(handle->stream, [=] {                                                                     \
      for (size_t i = 0; i < size_t(count); ++i)                                                   \
        info[i] = syevd(job_of(mode), part_of(part), n, a + i * lda * n, lda, values + i * n);     \
    });                                                                                            \
    return kSuccess;                                                                               \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##gesvd_bufferSize(Handle*, int, int, int* length) {             \
    return room(length);                                                                           \
  }                                                                                                \
  /* Matrices with fewer rows than columns are refused, as cuSOLVER does. */                       \
  SOFTGPU_EXPORT int cusolverDn##X##gesvd(Handle* handle, signed char job_u, signed char job_v,    \
                                          int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu,  \
                                          T* vh, int ldv, T*, int, Real<T>*, int* info) {          \
    if (m < n) return kInvalidValue;                                                               \
    return later(handle, info, [=] {                                                               \
      return gesvd(job_u, job_v, m, n, a, lda, s, u, std::max(1, ldu), vh, std::max(1, ldv));      \
    });                                                                                            \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##gesvdj_bufferSize(                                             \
      Handle*, int, int, int, int, const T*, int, const Real<T>*, const T*, int, const T*, int,    \
      int* length, void*) {                                                                        \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##gesvdj(Handle* handle, int mode, int economical, int m,        \
                                           int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* v,  \
                                           int ldv, T*, int, int* info, void*) {                   \
    const Svd<T> svd{m, n, a, lda, s, u, v, ldu, ldv};                                             \
    return later(handle, info, [=] { return svd.run(job_of_svd(mode, economical)); });             \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##gesvdjBatched_bufferSize(                                      \
      Handle*, int, int, int, const T*, int, const Real<T>*, const T*, int, const T*, int,         \
      int* length, void*, int) {                                                                   \
    return room(length);                                                                           \
  }                                                                                                \
  SOFTGPU_EXPORT int cusolverDn##X##gesvdjBatched(Handle* handle, int mode, int m, int n, T* a,    \
                                                  int lda, Real<T>* s, T* u, int ldu, T* v,        \
                                                  int ldv, T*, int, int* info, void*,              \
                                                  int count) {                                     \
    if (m > 32 || n > 32) return kInvalidValue;                                                    \
    give(handle->stream, [=] {                                                                     \
      for (size_t i = 0; i < size_t(count); ++i) {                                                 \
        const Svd<T> svd{m, n, a + i * lda * n, lda, s + i * std::min(m, n),                       \
                         u + i * ldu * m, v + i * ldv * n, ldu, ldv};                              \
        info[i] = svd.run(job_of_svd(mode, 0));                                                    \
      }                                                                                            \
    });                                                                                            \
    return kSuccess;                                                                               \
  }
SOFTGPU_SOLVER(S, o, r, sy, float)
SOFTGPU_SOLVER(D, o, r, sy, double)
SOFTGPU_SOLVER(C, u, n, he, C)
SOFTGPU_SOLVER(Z, u, n, he, Z)

SOFTGPU_EXPORT int cusolverDnXsyevd_bufferSize(Handle*, void*, int, int, int64_t, int,
                                               const void*, int64_t, int, const void*, int,
                                               size_t* on_device, size_t* on_host) {
  return room(on_device, on_host);
}

SOFTGPU_EXPORT int cusolverDnXsyevd(Handle* handle, void*, int mode, int part, int64_t n, int type,
                                    void* a, int64_t lda, int, void* values, int, void*, size_t,
                                    void*, size_t, int* info) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return later(handle, info, [=] {
      return syevd(job_of(mode), part_of(part), static_cast<int>(n), static_cast<T*>(a),
                   static_cast<int>(lda), static_cast<Real<T>*>(values));
    });
  });
}

SOFTGPU_EXPORT int cusolverDnXgeev_bufferSize(Handle*, void*, int, int, int64_t, int, const void*,
                                              int64_t, int, const void*, int, const void*, int64_t,
                                              int, const void*, int64_t, int, size_t* on_device,
                                              size_t* on_host) {
  return room(on_device, on_host);
}

SOFTGPU_EXPORT int cusolverDnXgeev(Handle* handle, void*, int left, int right, int64_t n, int type,
                                   void* a, int64_t lda, int, void* values, int, void*, int64_t,
                                   int, void* vectors, int64_t ldv, int, void*, size_t, void*,
                                   size_t, int* info) {
  if (left) return kNotSupported;
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return later(handle, info, [=] {
      return geev(job_of(right), static_cast<int>(n), static_cast<T*>(a), static_cast<int>(lda),
                  static_cast<std::complex<Real<T>>*>(values), static_cast<T*>(vectors),
                  static_cast<int>(ldv));
    });
  });
}
