// Atomic operations, which are plain ones: one thread runs at a time.
#pragma once
#pragma GCC system_header

#define SOFTGPU_ATOMIC(name, T, expression)                                                        \
  inline T name(T* at, T value) {                                                                  \
    T old = *at;                                                                                   \
    *at = expression;                                                                              \
    return old;                                                                                    \
  }
#define SOFTGPU_ORDERED(T)                                                                         \
  SOFTGPU_ATOMIC(atomicMax, T, old < value ? value : old)                                          \
  SOFTGPU_ATOMIC(atomicMin, T, value < old ? value : old)
#define SOFTGPU_INTEGER(T)                                                                         \
  SOFTGPU_ATOMIC(atomicAdd, T, old + value)                                                        \
  SOFTGPU_ATOMIC(atomicExch, T, value)                                                             \
  SOFTGPU_ORDERED(T)                                                                               \
  SOFTGPU_ATOMIC(atomicSub, T, old - value)                                                        \
  SOFTGPU_ATOMIC(atomicAnd, T, old & value)                                                        \
  SOFTGPU_ATOMIC(atomicOr, T, old | value)                                                         \
  SOFTGPU_ATOMIC(atomicXor, T, old ^ value)                                                        \
  inline T atomicCAS(T* at, T compare, T value) {                                                  \
    T old = *at;                                                                                   \
    if (old == compare) *at = value;                                                               \
    return old;                                                                                    \
  }
SOFTGPU_INTEGER(int)
SOFTGPU_INTEGER(unsigned)
SOFTGPU_INTEGER(unsigned long long)
SOFTGPU_ORDERED(long long)
SOFTGPU_ATOMIC(atomicAdd, float, old + value)
SOFTGPU_ATOMIC(atomicAdd, double, old + value)
SOFTGPU_ATOMIC(atomicExch, float, value)
#undef SOFTGPU_INTEGER
#undef SOFTGPU_ORDERED
#undef SOFTGPU_ATOMIC

inline unsigned short atomicCAS(unsigned short* at, unsigned short compare, unsigned short value) {
  unsigned short old = *at;
  if (old == compare) *at = value;
  return old;
}

template <class T>
inline T __ldg(const T* at) {
  return *at;
}
