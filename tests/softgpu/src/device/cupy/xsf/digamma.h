// CuPy's header of this name includes <cmath>, whose overloads meet those of NVRTC.
// M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions" (1964), 6.3.5, 6.3.7, 6.3.18.
#pragma once
#pragma GCC system_header

namespace xsf {

inline double digamma(double x) {
  if (x == 0) return copysign(1 / 0.0, -x);
  if (x < 0) {
    if (x == trunc(x)) return 0 / 0.0;
    return digamma(1 - x) - softgpu_device::kPi / tan(softgpu_device::kPi * fmod(x, 1));
  }
  double sum = 0;
  for (; x < 16; ++x) sum -= 1 / x;
  const double z = 1 / (x * x);
  double tail = z * (1 / 12.0 - z * (1 / 120.0 - z * (1 / 252.0 - z * (1 / 240.0 - z / 132))));
  return sum + log(x) - 0.5 / x - tail;
}

inline float digamma(float x) { return float(digamma(double(x))); }

}  // namespace xsf
