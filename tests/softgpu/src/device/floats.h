// Functions of floating point numbers that CUDA C++ has beyond C++.
#pragma once

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

namespace softgpu_device {

template <class To, class From>
inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// By Newton's method from the approximation of S. Winitzki, "A handy approximation for the error
// function and its inverse" (2008).
inline double erfinv(double x) {
  if (!(x > -1 && x < 1)) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
  if (x == 0) return x;
  const double a = 0.147, l = log1p(-x * x), t = 2 / (M_PI * a) + l / 2;
  double y = copysign(sqrt(sqrt(t * t - l / a) - t), x);
  for (int n = 0; n < 4; ++n) y -= (erf(y) - x) / (2 / sqrt(M_PI) * exp(-y * y));
  return y;
}

// The modified Bessel function of the first kind, by its series or, far out, its asymptotic one.
// M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions" (1964), 9.6.10 and 9.7.1.
inline double bessel_i(int order, double x) {
  if (x != x || std::isinf(x)) return x * x;
  double term = order ? x / 2 : 1, sum = term;
  if (x < 40) {
    for (int k = 1; k < 200; ++k) sum += term *= x * x / 4 / k / (k + order);
    return sum;
  }
  term = sum = 1;
  for (int k = 1; k < 30; ++k) {
    const double odd = 2 * k - 1;
    sum += term *= -(4 * order * order - odd * odd) / (8 * k * x);
  }
  return exp(x / 2) * (sum / sqrt(2 * M_PI * x)) * exp(x / 2);
}

}  // namespace softgpu_device

inline float __int_as_float(int x) { return softgpu_device::bits<float>(x); }
inline int __float_as_int(float x) { return softgpu_device::bits<int>(x); }
inline float __uint_as_float(unsigned x) { return softgpu_device::bits<float>(x); }
inline unsigned __float_as_uint(float x) { return softgpu_device::bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return softgpu_device::bits<double>(x); }
inline long long __double_as_longlong(double x) { return softgpu_device::bits<long long>(x); }
inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | unsigned(low));
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dsqrt_rn(double a) { return sqrt(a); }

// The fast ones, here as exact as the others.
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return expf(a); }
inline float __exp10f(float a) { return exp10f(a); }
inline float __logf(float a) { return logf(a); }
inline float __log2f(float a) { return log2f(a); }
inline float __log10f(float a) { return log10f(a); }
inline float __sinf(float a) { return sinf(a); }
inline float __cosf(float a) { return cosf(a); }
inline float __tanf(float a) { return tanf(a); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

// A function of double, and the same for float under both of its names.
#define SOFTGPU_FUNCTION(name, expression)                                                         \
  inline double name(double x) { return expression; }                                              \
  inline float name##f(float x) { return float(name(static_cast<double>(x))); }                    \
  inline float name(float x) { return name##f(x); }
SOFTGPU_FUNCTION(rsqrt, 1 / sqrt(x))
SOFTGPU_FUNCTION(rcbrt, 1 / cbrt(x))
SOFTGPU_FUNCTION(sinpi, sin(M_PI * fmod(x, 2)))
SOFTGPU_FUNCTION(cospi, cos(M_PI * fmod(x, 2)))
SOFTGPU_FUNCTION(normcdf, 0.5 * erfc(-x * M_SQRT1_2))
SOFTGPU_FUNCTION(erfcx, exp(x* x) * erfc(x))
SOFTGPU_FUNCTION(erfinv, softgpu_device::erfinv(x))
SOFTGPU_FUNCTION(erfcinv, softgpu_device::erfinv(1 - x))
SOFTGPU_FUNCTION(normcdfinv, M_SQRT2* softgpu_device::erfinv(2 * x - 1))
SOFTGPU_FUNCTION(cyl_bessel_i0, softgpu_device::bessel_i(0, fabs(x)))
SOFTGPU_FUNCTION(cyl_bessel_i1, copysign(softgpu_device::bessel_i(1, fabs(x)), x))
#undef SOFTGPU_FUNCTION

inline float j0(float x) { return float(::j0(double(x))); }
inline float j1(float x) { return float(::j1(double(x))); }
inline float y0(float x) { return float(::y0(double(x))); }
inline float y1(float x) { return float(::y1(double(x))); }
inline float exp10(float x) { return exp10f(x); }

// The other number, if one is NaN.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

// Conversions to integers, rounded to nearest, to zero, up and down, and from them, to nearest.
#define SOFTGPU_CONVERSIONS(F, from, T, to)                                 \
  inline T __##from##2##to##_rn(F x) { return static_cast<T>(rint(x)); }   \
  inline T __##from##2##to##_rz(F x) { return static_cast<T>(trunc(x)); }  \
  inline T __##from##2##to##_ru(F x) { return static_cast<T>(ceil(x)); }   \
  inline T __##from##2##to##_rd(F x) { return static_cast<T>(floor(x)); }  \
  inline F __##to##2##from##_rn(T x) { return static_cast<F>(x); }
SOFTGPU_CONVERSIONS(float, float, int, int)
SOFTGPU_CONVERSIONS(float, float, unsigned, uint)
SOFTGPU_CONVERSIONS(float, float, long long, ll)
SOFTGPU_CONVERSIONS(float, float, unsigned long long, ull)
SOFTGPU_CONVERSIONS(double, double, int, int)
SOFTGPU_CONVERSIONS(double, double, unsigned, uint)
SOFTGPU_CONVERSIONS(double, double, long long, ll)
SOFTGPU_CONVERSIONS(double, double, unsigned long long, ull)
#undef SOFTGPU_CONVERSIONS
inline float __double2float_rn(double x) { return float(x); }
