// Functions of floating point numbers, those that NVRTC declares: in the global namespace, for float
// and double, so that a call with integers alone is ambiguous here as there. No header of C or C++ is
// included, as NVRTC has none; glibc has the functions.
#pragma once
#pragma GCC system_header

#define SOFTGPU_UNARY(Result, name)                                                                \
  extern "C" Result name(double) noexcept;                                                         \
  extern "C" Result name##f(float) noexcept;                                                       \
  inline Result name(float x) { return name##f(x); }
#define SOFTGPU_FLOAT1(name)                                                                       \
  extern "C" double name(double) noexcept;                                                         \
  extern "C" float name##f(float) noexcept;                                                        \
  inline float name(float x) { return name##f(x); }
#define SOFTGPU_FLOAT2(name)                                                                       \
  extern "C" double name(double, double) noexcept;                                                 \
  extern "C" float name##f(float, float) noexcept;                                                 \
  inline float name(float x, float y) { return name##f(x, y); }
#define SOFTGPU_WITH(name, T)                                                                      \
  extern "C" double name(double, T) noexcept;                                                      \
  extern "C" float name##f(float, T) noexcept;                                                     \
  inline float name(float x, T y) { return name##f(x, y); }
SOFTGPU_FLOAT1(acos)
SOFTGPU_FLOAT1(acosh)
SOFTGPU_FLOAT1(asin)
SOFTGPU_FLOAT1(asinh)
SOFTGPU_FLOAT1(atan)
SOFTGPU_FLOAT1(atanh)
SOFTGPU_FLOAT1(cbrt)
SOFTGPU_FLOAT1(ceil)
SOFTGPU_FLOAT1(cos)
SOFTGPU_FLOAT1(cosh)
SOFTGPU_FLOAT1(erf)
SOFTGPU_FLOAT1(erfc)
SOFTGPU_FLOAT1(exp)
SOFTGPU_FLOAT1(exp10)
SOFTGPU_FLOAT1(exp2)
SOFTGPU_FLOAT1(expm1)
SOFTGPU_FLOAT1(fabs)
SOFTGPU_FLOAT1(floor)
SOFTGPU_FLOAT1(lgamma)
SOFTGPU_FLOAT1(log)
SOFTGPU_FLOAT1(log10)
SOFTGPU_FLOAT1(log1p)
SOFTGPU_FLOAT1(log2)
SOFTGPU_FLOAT1(logb)
SOFTGPU_FLOAT1(nearbyint)
SOFTGPU_FLOAT1(rint)
SOFTGPU_FLOAT1(round)
SOFTGPU_FLOAT1(sin)
SOFTGPU_FLOAT1(sinh)
SOFTGPU_FLOAT1(sqrt)
SOFTGPU_FLOAT1(tan)
SOFTGPU_FLOAT1(tanh)
SOFTGPU_FLOAT1(tgamma)
SOFTGPU_FLOAT1(trunc)
SOFTGPU_FLOAT2(atan2)
SOFTGPU_FLOAT2(copysign)
SOFTGPU_FLOAT2(fdim)
SOFTGPU_FLOAT2(fmax)
SOFTGPU_FLOAT2(fmin)
SOFTGPU_FLOAT2(fmod)
SOFTGPU_FLOAT2(hypot)
SOFTGPU_FLOAT2(nextafter)
SOFTGPU_FLOAT2(pow)
SOFTGPU_FLOAT2(remainder)
SOFTGPU_UNARY(int, ilogb)
SOFTGPU_UNARY(long, lrint)
SOFTGPU_UNARY(long, lround)
SOFTGPU_UNARY(long long, llrint)
SOFTGPU_UNARY(long long, llround)
SOFTGPU_WITH(frexp, int*)
SOFTGPU_WITH(ldexp, int)
SOFTGPU_WITH(scalbn, int)
SOFTGPU_WITH(scalbln, long)
#undef SOFTGPU_UNARY
#undef SOFTGPU_FLOAT1
#undef SOFTGPU_FLOAT2
#undef SOFTGPU_WITH

extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
double remquo(double, double, int*) noexcept;
float remquof(float, float, int*) noexcept;
void sincos(double, double*, double*) noexcept;
void sincosf(float, float*, float*) noexcept;
double nan(const char*) noexcept;
float nanf(const char*) noexcept;
double j0(double) noexcept;
double j1(double) noexcept;
double jn(int, double) noexcept;
double y0(double) noexcept;
double y1(double) noexcept;
double yn(int, double) noexcept;
float j0f(float) noexcept;
float j1f(float) noexcept;
float jnf(int, float) noexcept;
float y0f(float) noexcept;
float y1f(float) noexcept;
float ynf(int, float) noexcept;
}
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float modf(float x, float* whole) { return modff(x, whole); }
inline float remquo(float x, float y, int* quotient) { return remquof(x, y, quotient); }
inline void sincos(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
inline double copysign(float x, double y) { return copysign(double(x), y); }
inline double copysign(double x, float y) { return copysign(x, double(y)); }
// As std::pow of C++11 does it, a power of float with a whole exponent is that of double, rounded.
inline float pow(float x, int n) { return float(pow(double(x), double(n))); }
inline double pow(double x, int n) { return pow(x, double(n)); }
inline double fdivide(double x, double y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }

inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

namespace softgpu_device {

constexpr double kPi = 3.14159265358979323846, kRoot2 = 1.41421356237309504880;

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
  if (!(x > -1 && x < 1)) return x == 1 ? __builtin_inf() : x == -1 ? -__builtin_inf() : __builtin_nan("");
  if (x == 0) return x;
  const double a = 0.147, l = log1p(-x * x), t = 2 / (kPi * a) + l / 2;
  double y = copysign(sqrt(sqrt(t * t - l / a) - t), x);
  for (int n = 0; n < 4; ++n) y -= (erf(y) - x) / (2 / sqrt(kPi) * exp(-y * y));
  return y;
}

// The modified Bessel function of the first kind, by its series or, far out, its asymptotic one.
// M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions" (1964), 9.6.10 and 9.7.1.
inline double bessel_i(int order, double x) {
  if (x != x || isinf(x)) return x * x;
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
  return exp(x / 2) * (sum / sqrt(2 * kPi * x)) * exp(x / 2);
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
SOFTGPU_FUNCTION(sinpi, sin(softgpu_device::kPi * fmod(x, 2)))
SOFTGPU_FUNCTION(cospi, cos(softgpu_device::kPi * fmod(x, 2)))
SOFTGPU_FUNCTION(normcdf, 0.5 * erfc(-x / softgpu_device::kRoot2))
SOFTGPU_FUNCTION(erfcx, exp(x* x) * erfc(x))
SOFTGPU_FUNCTION(erfinv, softgpu_device::erfinv(x))
SOFTGPU_FUNCTION(erfcinv, softgpu_device::erfinv(1 - x))
SOFTGPU_FUNCTION(normcdfinv, softgpu_device::kRoot2* softgpu_device::erfinv(2 * x - 1))
SOFTGPU_FUNCTION(cyl_bessel_i0, softgpu_device::bessel_i(0, fabs(x)))
SOFTGPU_FUNCTION(cyl_bessel_i1, copysign(softgpu_device::bessel_i(1, fabs(x)), x))
#undef SOFTGPU_FUNCTION

inline float j0(float x) { return j0f(x); }
inline float j1(float x) { return j1f(x); }
inline float y0(float x) { return y0f(x); }
inline float y1(float x) { return y1f(x); }

// The other number, if one is NaN.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(double(a), double(b)); }
inline double max(float a, double b) { return fmax(double(a), double(b)); }
inline double min(double a, float b) { return fmin(double(a), double(b)); }
inline double max(double a, float b) { return fmax(double(a), double(b)); }

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
