// The vector types that NVRTC declares, and functions that make them.
#pragma once
#pragma GCC system_header

// CUDA's own headers of them would include CUDA's runtime, and with it headers of C.
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__

#define SOFTGPU_VECTORS(name, T, align2, align4)                                                   \
  struct name##1 {                                                                                 \
    T x;                                                                                           \
  };                                                                                               \
  struct __attribute__((aligned(align2))) name##2 {                                                \
    T x, y;                                                                                        \
  };                                                                                               \
  struct name##3 {                                                                                 \
    T x, y, z;                                                                                     \
  };                                                                                               \
  struct __attribute__((aligned(align4))) name##4 {                                                \
    T x, y, z, w;                                                                                  \
  };                                                                                               \
  inline name##1 make_##name##1(T x) { return {x}; }                                               \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                       \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                               \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SOFTGPU_VECTORS(char, signed char, 2, 4)
SOFTGPU_VECTORS(uchar, unsigned char, 2, 4)
SOFTGPU_VECTORS(short, short, 4, 8)
SOFTGPU_VECTORS(ushort, unsigned short, 4, 8)
SOFTGPU_VECTORS(int, int, 8, 16)
SOFTGPU_VECTORS(uint, unsigned, 8, 16)
SOFTGPU_VECTORS(long, long, 16, 16)
SOFTGPU_VECTORS(ulong, unsigned long, 16, 16)
SOFTGPU_VECTORS(longlong, long long, 16, 16)
SOFTGPU_VECTORS(ulonglong, unsigned long long, 16, 16)
SOFTGPU_VECTORS(float, float, 8, 16)
SOFTGPU_VECTORS(double, double, 16, 16)
#undef SOFTGPU_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
