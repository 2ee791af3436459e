// LAPACK of the package scipy-openblas32, as overloads by type. Matrices lie by columns; each
// function returns LAPACK's "info".
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "library.h"

namespace softgpu {

using C = std::complex<float>;
using Z = std::complex<double>;

template <class T>
struct RealOf {
  using type = T;
};
template <class F>
struct RealOf<std::complex<F>> {
  using type = F;
};
template <class T>
using Real = typename RealOf<T>::type;

template <class T>
constexpr bool is_complex = !std::is_same_v<T, Real<T>>;

}  // namespace softgpu

// The routines have more arguments than their documentation says: the lengths of strings.
#define SOFTGPU_ROUTINES(p, T)                                                                     \
  void scipy_##p##getrf_(const int*, const int*, T*, const int*, int*, int*);                      \
  void scipy_##p##getri_(const int*, T*, const int*, const int*, T*, const int*, int*);            \
  void scipy_##p##getrs_(const char*, const int*, const int*, const T*, const int*, const int*,    \
                         T*, const int*, int*, size_t);                                            \
  void scipy_##p##potrf_(const char*, const int*, T*, const int*, int*, size_t);                   \
  void scipy_##p##potrs_(const char*, const int*, const int*, const T*, const int*, T*,            \
                         const int*, int*, size_t);                                                \
  void scipy_##p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);        \
  void scipy_##p##trsm_(const char*, const char*, const char*, const char*, const int*,            \
                        const int*, const T*, const T*, const int*, T*, const int*, size_t,        \
                        size_t, size_t, size_t);

#define SOFTGPU_ORTHOGONAL(p, o, r, T)                                                             \
  void scipy_##p##o##r##gqr_(const int*, const int*, const int*, T*, const int*, const T*, T*,     \
                           const int*, int*);                                                      \
  void scipy_##p##o##r##mqr_(const char*, const char*, const int*, const int*, const int*,         \
                           const T*, const int*, const T*, T*, const int*, T*, const int*, int*,   \
                           size_t, size_t);

#define SOFTGPU_REAL(p, T)                                                                         \
  void scipy_##p##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, T*,    \
                         T*, const int*, T*, const int*, T*, const int*, int*, size_t, size_t);    \
  void scipy_##p##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*,             \
                         const int*, int*, const int*, int*, size_t, size_t);                      \
  void scipy_##p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*,          \
                        const int*, T*, const int*, T*, const int*, int*, size_t, size_t);

#define SOFTGPU_COMPLEX(p, T, R)                                                                   \
  void scipy_##p##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, R*,    \
                         T*, const int*, T*, const int*, T*, const int*, R*, int*, size_t,        \
                         size_t);                                                                 \
  void scipy_##p##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*,             \
                         const int*, R*, const int*, int*, const int*, int*, size_t, size_t);      \
  void scipy_##p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*,  \
                        T*, const int*, T*, const int*, R*, int*, size_t, size_t);

extern "C" {
SOFTGPU_ROUTINES(s, float)
SOFTGPU_ROUTINES(d, double)
SOFTGPU_ROUTINES(c, softgpu::C)
SOFTGPU_ROUTINES(z, softgpu::Z)
SOFTGPU_ORTHOGONAL(s, o, r, float)
SOFTGPU_ORTHOGONAL(d, o, r, double)
SOFTGPU_ORTHOGONAL(c, u, n, softgpu::C)
SOFTGPU_ORTHOGONAL(z, u, n, softgpu::Z)
SOFTGPU_REAL(s, float)
SOFTGPU_REAL(d, double)
SOFTGPU_COMPLEX(c, softgpu::C, float)
SOFTGPU_COMPLEX(z, softgpu::Z, double)
void scipy_openblas_set_num_threads(int);
}

#undef SOFTGPU_ROUTINES
#undef SOFTGPU_ORTHOGONAL
#undef SOFTGPU_REAL
#undef SOFTGPU_COMPLEX

namespace softgpu {

// Other threads of OpenBLAS would have no right to device memory.
struct OneThread {
  OneThread() { scipy_openblas_set_num_threads(1); }
};
inline OneThread one_thread;

// Calls a routine that asks how much room for work it wants when told -1.
template <class T, class Routine>
int with_work(Routine&& call) {
  T wanted{};
  int asking = -1;
  int info = call(&wanted, &asking);
  if (info) return info;
  int length = std::max(1, static_cast<int>(std::real(wanted)));
  std::vector<T> work(length);
  return call(work.data(), &length);
}

#define SOFTGPU_OVERLOADS(p, o, r, T)                                                              \
  inline int getrf(int m, int n, T* a, int lda, int* pivots) {                                     \
    int info;                                                                                      \
    scipy_##p##getrf_(&m, &n, a, &lda, pivots, &info);                                             \
    return info;                                                                                   \
  }                                                                                                \
  inline int getri(int n, T* a, int lda, const int* pivots) {                                      \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##getri_(&n, a, &lda, pivots, work, length, &info);                                 \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline int getrs(char op, int n, int columns, const T* a, int lda, const int* pivots, T* b,      \
                   int ldb) {                                                                      \
    int info;                                                                                      \
    scipy_##p##getrs_(&op, &n, &columns, a, &lda, pivots, b, &ldb, &info, 1);                      \
    return info;                                                                                   \
  }                                                                                                \
  inline int potrf(char part, int n, T* a, int lda) {                                              \
    int info;                                                                                      \
    scipy_##p##potrf_(&part, &n, a, &lda, &info, 1);                                               \
    return info;                                                                                   \
  }                                                                                                \
  inline int potrs(char part, int n, int columns, const T* a, int lda, T* b, int ldb) {            \
    int info;                                                                                      \
    scipy_##p##potrs_(&part, &n, &columns, a, &lda, b, &ldb, &info, 1);                            \
    return info;                                                                                   \
  }                                                                                                \
  inline int geqrf(int m, int n, T* a, int lda, T* tau) {                                          \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##geqrf_(&m, &n, a, &lda, tau, work, length, &info);                                \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {                             \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##o##r##gqr_(&m, &n, &k, a, &lda, tau, work, length, &info);                        \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline int ormqr(char side, char op, int m, int n, int k, const T* a, int lda, const T* tau,     \
                   T* c, int ldc) {                                                                \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##o##r##mqr_(&side, &op, &m, &n, &k, a, &lda, tau, c, &ldc, work, length, &info, 1, \
                          1);                                                                      \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline void trsm(char side, char part, char op, char diagonal, int m, int n, T alpha,            \
                   const T* a, int lda, T* b, int ldb) {                                           \
    scipy_##p##trsm_(&side, &part, &op, &diagonal, &m, &n, &alpha, a, &lda, b, &ldb, 1, 1, 1, 1);  \
  }
SOFTGPU_OVERLOADS(s, o, r, float)
SOFTGPU_OVERLOADS(d, o, r, double)
SOFTGPU_OVERLOADS(c, u, n, C)
SOFTGPU_OVERLOADS(z, u, n, Z)
#undef SOFTGPU_OVERLOADS

// a = u * s * vh; a job is 'A' for all vectors of a side, 'S' for those of the smaller one, 'O' to
// have them in place of the matrix, 'N' for none.
// Eigenvalues of a Hermitian matrix, and its vectors in place of it with job 'V'.
// Eigenvalues of any matrix; real matrices have pairs of vectors for pairs of values, as LAPACK.
#define SOFTGPU_OVERLOADS(p, T)                                                                    \
  inline int gesvd(char job_u, char job_v, int m, int n, T* a, int lda, T* s, T* u, int ldu,       \
                   T* vh, int ldv) {                                                               \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##gesvd_(&job_u, &job_v, &m, &n, a, &lda, s, u, &ldu, vh, &ldv, work, length,       \
                        &info, 1, 1);                                                              \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline int syevd(char job, char part, int n, T* a, int lda, T* values) {                         \
    int wanted = 3 + 5 * n;                                                                        \
    std::vector<int> integers(wanted);                                                             \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##syevd_(&job, &part, &n, a, &lda, values, work, length, integers.data(), &wanted,  \
                        &info, 1, 1);                                                              \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline int geev(char job, int n, T* a, int lda, std::complex<T>* values, T* vectors, int ldv) {  \
    std::vector<T> re(n), im(n);                                                                   \
    int one = 1;                                                                                   \
    const int failed = with_work<T>([&](T* work, int* length) {                                    \
      int info;                                                                                    \
      scipy_##p##geev_("N", &job, &n, a, &lda, re.data(), im.data(), nullptr, &one, vectors,       \
                       &ldv, work, length, &info, 1, 1);                                           \
      return info;                                                                                 \
    });                                                                                            \
    for (int i = 0; i < n; ++i) values[i] = {re[i], im[i]};                                        \
    return failed;                                                                                 \
  }
SOFTGPU_OVERLOADS(s, float)
SOFTGPU_OVERLOADS(d, double)
#undef SOFTGPU_OVERLOADS

#define SOFTGPU_OVERLOADS(p, T, R)                                                                 \
  inline int gesvd(char job_u, char job_v, int m, int n, T* a, int lda, R* s, T* u, int ldu,       \
                   T* vh, int ldv) {                                                               \
    std::vector<R> reals(5 * std::max(1, std::min(m, n)));                                         \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##gesvd_(&job_u, &job_v, &m, &n, a, &lda, s, u, &ldu, vh, &ldv, work, length,       \
                        reals.data(), &info, 1, 1);                                                \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline int syevd(char job, char part, int n, T* a, int lda, R* values) {                         \
    int wanted = 3 + 5 * n, real = 1 + 5 * n + 2 * n * n;                                          \
    std::vector<int> integers(wanted);                                                             \
    std::vector<R> reals(real);                                                                    \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##heevd_(&job, &part, &n, a, &lda, values, work, length, reals.data(), &real,       \
                        integers.data(), &wanted, &info, 1, 1);                                    \
      return info;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  inline int geev(char job, int n, T* a, int lda, T* values, T* vectors, int ldv) {                \
    std::vector<R> reals(2 * n);                                                                   \
    int one = 1;                                                                                   \
    return with_work<T>([&](T* work, int* length) {                                                \
      int info;                                                                                    \
      scipy_##p##geev_("N", &job, &n, a, &lda, values, nullptr, &one, vectors, &ldv, work,         \
                       length, reals.data(), &info, 1, 1);                                         \
      return info;                                                                                 \
    });                                                                                            \
  }
SOFTGPU_OVERLOADS(c, C, float)
SOFTGPU_OVERLOADS(z, Z, double)
#undef SOFTGPU_OVERLOADS

// CUDA's enumerations as LAPACK's letters.
inline char part_of(int fill) { return fill == 0 ? 'L' : 'U'; }
inline char op_of(int operation) { return "NTC"[operation]; }
inline char side_of(int side) { return side == 0 ? 'L' : 'R'; }
inline char diagonal_of(int diagonal) { return diagonal == 0 ? 'N' : 'U'; }
inline char job_of(int mode) { return mode == 0 ? 'N' : 'V'; }

}  // namespace softgpu
