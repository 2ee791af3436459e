// Functions of integers that CUDA C++ has beyond C++.
#pragma once
#pragma GCC system_header

inline unsigned __umulhi(unsigned a, unsigned b) {
  return unsigned((unsigned long long)a * b >> 32);
}
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  return (long long)((__int128)a * b >> 64);
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int n = 0; n < 32; ++n) result |= (x >> n & 1) << (31 - n);
  return result;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}

// Four of the eight bytes of two words, chosen by the low three bits of each nibble.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  const unsigned long long bytes = (unsigned long long)high << 32 | low;
  unsigned result = 0;
  for (int n = 0; n < 4; ++n)
    result |= unsigned(bytes >> 8 * (which >> 4 * n & 7) & 255) << 8 * n;
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}

#define SOFTGPU_MIN_MAX(T)                                                                         \
  inline T min(T a, T b) { return b < a ? b : a; }                                                 \
  inline T max(T a, T b) { return a < b ? b : a; }
SOFTGPU_MIN_MAX(int)
SOFTGPU_MIN_MAX(unsigned)
SOFTGPU_MIN_MAX(long)
SOFTGPU_MIN_MAX(unsigned long)
SOFTGPU_MIN_MAX(long long)
SOFTGPU_MIN_MAX(unsigned long long)
#undef SOFTGPU_MIN_MAX
#define SOFTGPU_MIXED(T)                                                                           \
  inline unsigned T min(T a, unsigned T b) { return min((unsigned T)a, b); }                       \
  inline unsigned T min(unsigned T a, T b) { return min(a, (unsigned T)b); }                       \
  inline unsigned T max(T a, unsigned T b) { return max((unsigned T)a, b); }                       \
  inline unsigned T max(unsigned T a, T b) { return max(a, (unsigned T)b); }
SOFTGPU_MIXED(int)
SOFTGPU_MIXED(long)
SOFTGPU_MIXED(long long)
#undef SOFTGPU_MIXED

extern "C" {
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
}
inline long abs(long a) { return labs(a); }
inline long long abs(long long a) { return llabs(a); }
