// Random numbers of one element, from a key and the element's position: what `gpushard/_ops/prng`
// and its rows do with arrays, step by step, so that integers and uniform numbers have its bits and
// others differ by the rounding of logarithms and the like. Compile without contracted products and
// sums. The sources of the algorithms are named there.
#pragma once

struct Words {
  unsigned first, second;
};

__device__ inline unsigned rotated(unsigned x, unsigned by) { return x << by | x >> (32 - by); }

// Threefry-2x32 with 20 rounds.
__device__ inline Words threefry(unsigned key0, unsigned key1, unsigned high, unsigned low) {
  const unsigned keys[3] = {key0, key1, key0 ^ key1 ^ 0x1BD11BDAu};
  const unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  unsigned first = high + key0, second = low + key1;
#pragma unroll
  for (unsigned group = 0; group < 5; ++group) {
#pragma unroll
    for (unsigned step = 0; step < 4; ++step) {
      first += second;
      second = rotated(second, rotations[group % 2][step]) ^ first;
    }
    first += keys[(group + 1) % 3];
    second += keys[(group + 2) % 3] + group + 1;
  }
  return {first, second};
}

// What is known of floats by their size; half precision is worked out in single.
template <unsigned kBytes>
struct Float;

template <>
struct Float<2> {
  typedef unsigned short Bits;
  typedef float Wide;
  static constexpr unsigned kMantissa = 10;
};

template <>
struct Float<4> {
  typedef unsigned Bits;
  typedef float Wide;
  static constexpr unsigned kMantissa = 23;
  static __device__ float tiny() { return 1.17549435e-38f; }
};

template <>
struct Float<8> {
  typedef unsigned long long Bits;
  typedef double Wide;
  static constexpr unsigned kMantissa = 52;
  static __device__ double tiny() { return 2.2250738585072014e-308; }
};

template <typename T>
__device__ inline T infinite() {
  return T(1) / T(0.0f);
}

template <typename T>
__device__ inline T no_number() {
  return infinite<T>() - infinite<T>();
}

template <typename T>
__device__ inline T power_of_two(int exponent) {
  return T(ldexp(1.0, exponent));
}

template <typename W>
__device__ W inverse_erf(W x);

struct Stream {
  unsigned key0, key1;
  unsigned long long at;     // row-major position of the element in the whole array
  unsigned long long count;  // elements of that, for each key

  __device__ Words words() const {
    return threefry(key0, key1, static_cast<unsigned>(at >> 32), static_cast<unsigned>(at));
  }

  __device__ unsigned long long both_words() const {
    const Words drawn = words();
    return drawn.first | static_cast<unsigned long long>(drawn.second) << 32;
  }

  // The stream of the key folded with a number.
  __device__ Stream fold(unsigned number) const {
    const Words key = threefry(key0, key1, 0, number);
    return {key.first, key.second, at, count};
  }

  // The stream where the whole array is one of several, stacked along a new first dim.
  __device__ Stream stacked(unsigned number) const {
    return {key0, key1, at + number * count, count};
  }

  // The stream of an array with one dim more, the last.
  __device__ Stream widened(unsigned number, unsigned many) const {
    return {key0, key1, at * many + number, count};
  }

  // Random bits as an unsigned integer.
  template <typename T>
  __device__ T bits() const {
    const Words drawn = words();
    if (sizeof(T) == 8) {
      return static_cast<T>(static_cast<unsigned long long>(drawn.first) << 32 | drawn.second);
    }
    return static_cast<T>(drawn.first ^ drawn.second);
  }

  // Of [0, 1), from as many bits as the mantissa has.
  template <typename W>
  __device__ W uniform() const {
    typedef Float<sizeof(W)> Of;
    typedef typename Of::Wide Wide;
    const auto drawn = bits<typename Of::Bits>() >> (8 * sizeof(W) - Of::kMantissa);
    return W(Wide(drawn) * power_of_two<Wide>(-int(Of::kMantissa)));
  }

  // Of [low, high), each step rounded to the type.
  template <typename W>
  __device__ W uniform(W low, W high) const {
    typedef typename Float<sizeof(W)>::Wide Wide;
    const W width = W(Wide(high) - Wide(low));
    const W part = W(Wide(uniform<W>()) * Wide(width));
    const W value = W(Wide(part) + Wide(low));
    return Wide(value) < Wide(low) ? low : value;
  }

  template <typename W>
  __device__ W normal() const {
    const W most = W(1) - power_of_two<W>(-int(Float<sizeof(W)>::kMantissa) - 1);
    return inverse_erf(uniform<W>(-most, W(1))) * W(1.4142135623730951);
  }

  __device__ int sign() const { return uniform<double>() >= 0.5 ? -1 : 1; }
};

// The stream of key `number` of several.
template <typename Keys>
__device__ inline Stream stream_of(const Keys& keys, long long number, unsigned long long at,
                                   unsigned long long count) {
  return {keys[2 * number], keys[2 * number + 1], at, count};
}

template <typename W, unsigned kTerms>
__device__ inline W polynomial(const W (&coefficients)[kTerms], W x) {
  W value = coefficients[0];
#pragma unroll
  for (unsigned n = 1; n < kTerms; ++n) value = value * x + coefficients[n];
  return value;
}

// The coefficients are those of `giles.py`.
template <>
__device__ inline float inverse_erf(float x) {
  constexpr float kNear[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f,
                             -4.39150654e-06f, 0.00021858087f, -0.00125372503f,
                             -0.00417768164f, 0.246640727f, 1.50140941f};
  constexpr float kFar[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f,
                            -0.00367342844f, 0.00573950773f, -0.0076224613f,
                            0.00943887047f, 1.00167406f, 2.83297682f};
  const float w = -log1pf(-(x * x));
  if (w == infinite<float>()) return x * w;
  return (w >= 5.0f ? polynomial(kFar, sqrtf(w) - 3.0f) : polynomial(kNear, w - 2.5f)) * x;
}

template <>
__device__ inline double inverse_erf(double x) {
  constexpr double kNear[] = {
      -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
      1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
      6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
      2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
      1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
      4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
      0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
      0.24015818242558961693, 1.6536545626831027356};
  constexpr double kFar[] = {
      2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
      1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
      2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
      6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
      0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
      -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
      3.0838856104922207635};
  constexpr double kFurthest[] = {
      -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
      -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
      2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
      -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
      7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
      1.0103004648645343977, 4.8499064014085844221};
  const double w = -log1p(-(x * x));
  if (w == infinite<double>()) return x * w;
  if (w >= 16.0) return polynomial(kFurthest, sqrt(w) - 5.0) * x;
  return (w >= 6.25 ? polynomial(kFar, sqrt(w) - 3.25) : polynomial(kNear, w - 3.125)) * x;
}

// Integers from low to last, both included: the remainder of two numbers of bits, the high one of
// which counts 2**bits times.
template <typename W>
__device__ inline W random_integer(Stream s, W low, W last) {
  typedef typename Float<sizeof(W)>::Bits Unsigned;
  const Unsigned span = last < low ? 1 : static_cast<Unsigned>(last) - Unsigned(low) + 1;
  const Unsigned bits = s.fold(1).bits<Unsigned>();
  if (span == 0) return static_cast<W>(bits + Unsigned(low));  // all numbers that there are
  const Unsigned high = s.fold(0).bits<Unsigned>();
  const Unsigned half = (Unsigned(1) << (sizeof(Unsigned) * 4)) % span;
  const Unsigned factor = static_cast<Unsigned>(half * half) % span;
  const Unsigned offset = static_cast<Unsigned>((high % span) * factor + bits % span) % span;
  return static_cast<W>(offset + Unsigned(low));
}

template <typename W>
__device__ inline W exponential(Stream s) {
  return -log1p(-s.uniform<W>());
}

// The number of a type next to a bound, above it (sign 1) or below it, unless it lies there itself.
__device__ inline float next_to(float x, int sign) { return nextafterf(x, sign * infinite<float>()); }

__device__ inline double next_to(double x, int sign) {
  return nextafter(x, sign * infinite<double>());
}

// For half precision, which is a class with bits of its own.
template <typename Half>
__device__ inline Half next_to(Half x, int sign) {
  unsigned short bits;
  memcpy(&bits, &x, sizeof bits);
  const unsigned short size = bits & 0x7FFF;
  const bool up = sign > 0, negative = bits >> 15;
  if (size > 0x7C00 || (size == 0x7C00 && up != negative)) return x;  // NaN, infinity
  bits = size == 0 ? static_cast<unsigned short>(up ? 1 : 0x8001) : bits + (up != negative ? 1 : -1);
  memcpy(&x, &bits, sizeof bits);
  return x;
}

template <typename T, typename W>
__device__ inline W beyond(W bound, int sign) {
  const T near = T(bound);
  const bool passed = sign > 0 ? W(near) > bound : W(near) < bound;
  return W(passed ? near : next_to(near, sign));
}

template <typename T, typename W>
__device__ inline W truncated_normal(Stream s, W low, W high) {
  const W root = W(1.4142135623730951);
  const W from = W(erf(double(low / root))), to = W(erf(double(high / root)));
  const W value = root * inverse_erf(s.uniform<W>(from, to));
  const W least = beyond<T>(low, 1), most = beyond<T>(high, -1);
  const W raised = value < least ? least : value;
  return raised > most ? most : raised;
}

template <typename W>
__device__ inline W gumbel(Stream s, W loc) {
  return -log(-log(s.uniform<W>(Float<sizeof(W)>::tiny(), W(1)))) + loc;
}

template <typename W>
__device__ inline W gumbel_high(Stream s, W loc) {
  typedef Float<sizeof(W)> Of;
  const W high = s.uniform<W>(), low = s.stacked(1).uniform<W>();
  const W small = high + power_of_two<W>(-int(Of::kMantissa)) * low + Of::tiny();
  return -log(-log1p(-(high >= W(0.5) ? high : small))) + loc;
}

template <typename W>
__device__ inline bool bernoulli_high(Stream s, W p) {
  const W u = s.uniform<W>(), more = s.stacked(1).uniform<W>();
  return more * power_of_two<W>(-int(Float<sizeof(W)>::kMantissa)) < p - u;
}

template <typename W>
__device__ inline W laplace(Stream s) {
  const W low = W(-1) + power_of_two<W>(-int(Float<sizeof(W)>::kMantissa) - 1);
  const W u = s.uniform<W>(low, W(1));
  const W size = log1p(-(u < 0 ? -u : u));
  return u > 0 ? size : u < 0 ? -size : W(0);
}

template <typename W>
__device__ inline W logistic(Stream s) {
  const W u = s.uniform<W>(Float<sizeof(W)>::tiny(), W(1));
  return log(u) - log1p(-u);
}

template <typename W>
__device__ inline W cauchy(Stream s) {
  const W u = s.uniform<W>(power_of_two<W>(-int(Float<sizeof(W)>::kMantissa)), W(1));
  return tan(W(3.141592653589793) * (u - W(0.5)));
}

template <typename W>
__device__ inline W rayleigh(Stream s, W scale) {
  return scale * sqrt(W(-2) * log(s.uniform<W>()));
}

// Logarithms of gamma numbers; NaN unless a > 0. Trials are the stream folded with 1, 2, ...
template <typename W>
__device__ inline W log_gamma(Stream s, W a) {
  if (!(a > 0)) return no_number<W>();
  if (a == infinite<W>()) return a;
  const bool small = a < 1;
  const W d = (small ? a + W(1) : a) - W(1.0 / 3), c = W(1.0 / 3) / sqrt(d);
  W value;
  for (unsigned number = 1;; ++number) {
    const Stream own = s.fold(number);
    const W x = own.fold(0).normal<W>();
    const W root = W(1) + c * x;
    if (!(root > 0)) continue;
    const W cube = root * root * root, log_v = log(cube);
    value = log_v + log(d);
    const W bound = x * x / W(2) + d * ((W(1) - cube) + log_v);
    if (log(own.fold(1).uniform<W>()) < bound) break;
  }
  return small ? value + log1p(-s.fold(0).uniform<W>()) / a : value;
}

template <typename W>
__device__ inline W gamma_number(Stream s, W a) {
  return exp(log_gamma(s, a));
}

template <typename W>
__device__ inline W chi_square(Stream s, W df) {
  return W(2) * gamma_number(s, df / W(2));
}

template <typename W>
__device__ inline W beta_number(Stream s, W a, W b) {
  const W first = log_gamma(s.fold(0), a), second = log_gamma(s.fold(1), b);
  return W(1) / (W(1) + exp(second - first));
}

template <typename W>
__device__ inline W student_t(Stream s, W df) {
  const W half = df / W(2);
  return s.fold(0).normal<W>() * sqrt(half / gamma_number(s.fold(1), half));
}

template <typename W>
__device__ inline W f_number(Stream s, W numerator, W denominator) {
  const W above = chi_square(s.fold(1), numerator) / numerator;
  return above / (chi_square(s.fold(0), denominator) / denominator);
}

template <typename W>
__device__ inline W maxwell(Stream s) {
  W total = 0;
  for (unsigned n = 0; n < 3; ++n) {
    const W x = s.widened(n, 3).normal<W>();
    total += x * x;
  }
  return sqrt(total);
}

template <typename W>
__device__ inline W double_sided_maxwell(Stream s, W loc, W scale) {
  return W(s.fold(1).sign()) * maxwell<W>(s.fold(0)) * scale + loc;
}

template <typename W>
__device__ inline W generalized_normal(Stream s, W p) {
  const W root = W(1) / p;
  return W(s.fold(1).sign()) * W(exp(log_gamma(s.fold(0), root) * root));
}

template <typename W>
__device__ inline W triangular(Stream s, W left, W mode, W right) {
  const W u = s.uniform<W>();
  const W width = right - left, below = mode - left, above = right - mode;
  if (u < below / width) return left + sqrt(u * width * below);
  return right - sqrt((W(1) - u) * width * above);
}

template <typename W>
__device__ inline W wald(Stream s, W mean) {
  const W normal = s.fold(0).normal<W>(), u = s.fold(1).uniform<W>();
  const W y = normal * normal, square = mean * mean;
  const W x = mean + square * y / W(2) -
              mean / W(2) * sqrt(W(4) * mean * y + square * (y * y));
  return u <= mean / (mean + x) ? x : square / x;
}

// Floats that are no finite numbers become what integers have for them.
__device__ inline double whole(double value) { return value - value == 0 ? value : -1; }

__device__ inline double geometric(Stream s, double p) {
  const double u = s.uniform<double>();
  return floor(log(u == 0 ? 1.0 : u) / log1p(-p)) + 1;
}

// log(n!) of integers of at least 0: products, then Stirling's series.
__device__ inline double log_factorial(double n) {
  if (n < 16) {
    double product = 1;
    for (unsigned k = 2; k <= n; ++k) product *= k;
    return log(product);
  }
  const double x = n + 1, inverse = 1 / (x * x);
  const double series =
      (1.0 / 12 - inverse * (1.0 / 360 - inverse * (1.0 / 1260 - inverse / 1680))) / x;
  return (x - 0.5) * log(x) - x + 0.9189385332046727 + series;
}

// What transformed rejection starts from: u in [-0.5, 0.5), v, and 0.5 - |u|, which is not 0.
struct Transformed {
  double u, v, near;

  __device__ explicit Transformed(Stream own)
      : u(own.fold(0).uniform<double>() - 0.5), v(own.fold(1).uniform<double>()) {
    near = 0.5 - fabs(u);
    if (near < power_of_two<double>(-60)) near = power_of_two<double>(-60);
  }
};

// By inversion: counts up while the sum of probabilities is at most a uniform number. `ratio` gives
// the probability of k over that of k - 1.
template <typename Ratio>
__device__ inline double inverted(Stream s, double first, const Ratio& ratio) {
  const double uniform = s.fold(0).uniform<double>();
  double probability = first, total = first, value = 0;
  for (unsigned k = 1; k < 128 && uniform >= total && probability > 1e-18; ++k) {
    value += 1;
    probability *= ratio(k);
    total += probability;
  }
  return value;
}

__device__ inline double poisson(Stream s, double rate) {
  if (!(rate >= 0 && rate < infinite<double>())) return no_number<double>();
  if (rate < 10) return inverted(s, exp(-rate), [=](unsigned k) { return rate / k; });
  const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  const double scale = 1.1239 + 1.1328 / (b - 3.4);
  for (unsigned number = 1;; ++number) {
    const Transformed t(s.fold(number));
    const double k = floor((2 * a / t.near + b) * t.u + rate + 0.43);
    if (t.near >= 0.07 && t.v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (t.near < 0.013 && t.v > t.near)) continue;
    const double bound = k * log(rate) - rate - log_factorial(k);
    if (log(t.v * scale / (a / (t.near * t.near) + b)) <= bound) return k;
  }
}

__device__ inline double binomial(Stream s, double trials, double p) {
  double n = floor(trials);
  if (!(n >= 0 && p >= 0 && p <= 1)) return no_number<double>();
  if (n == infinite<double>()) {
    if (p > 0) return n;
    n = 0;
  }
  const double q = p < 1 - p ? p : 1 - p;
  if (n * q < 10) {
    const double odds = q / (1 - q);
    const double value = inverted(s, exp(n * log1p(-q)), [=](unsigned k) {
      return (n - k + 1) / k * odds;
    });
    return p > 0.5 ? n - value : value;
  }
  const double deviation = sqrt(n * q * (1 - q));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * q;
  const double mode = floor((n + 1) * q);
  for (unsigned number = 1;; ++number) {
    const Transformed t(s.fold(number));
    const double k = floor((2 * a / t.near + b) * t.u + n * q + 0.5);
    if (!(t.near >= 0.07 && t.v <= 0.92 - 4.2 / b)) {
      if (k < 0 || k > n) continue;
      double bound = (k - mode) * log(q / (1 - q));
      bound = bound + log_factorial(mode) + log_factorial(n - mode);
      bound = bound - log_factorial(k) - log_factorial(n - k);
      const double scaled = log(t.v * (2.83 + 5.1 / b) * deviation / (a / (t.near * t.near) + b));
      if (!(scaled <= bound)) continue;
    }
    return p > 0.5 ? n - k : k;
  }
}

// What rows call: the stream, then the parameters.

template <typename T>
__device__ inline T random_bits(Stream s) {
  return s.bits<T>();
}

template <typename W>
__device__ inline W uniform(Stream s) {
  return s.uniform<W>();
}

template <typename W>
__device__ inline W uniform(Stream s, W low, W high) {
  return s.uniform<W>(low, high);
}

template <typename W>
__device__ inline W normal(Stream s) {
  return s.normal<W>();
}

template <typename T, typename W>
__device__ inline T complex_normal(Stream s) {
  const W root = W(1.4142135623730951);
  return T(s.fold(0).normal<W>() / root, s.fold(1).normal<W>() / root);
}

template <typename W>
__device__ inline W pareto(Stream s, W b) {
  return exp(exponential<W>(s) / b);
}

template <typename W>
__device__ inline W weibull(Stream s, W scale, W concentration) {
  return pow(exponential<W>(s), W(1) / concentration) * scale;
}

template <typename W>
__device__ inline W lognormal(Stream s, W sigma) {
  return exp(s.normal<W>() * sigma);
}

template <typename W>
__device__ inline bool bernoulli(Stream s, W p) {
  return s.uniform<W>() < p;
}

__device__ inline int rademacher(Stream s) { return s.sign(); }

__device__ inline double whole_geometric(Stream s, double p) { return whole(geometric(s, p)); }

__device__ inline double whole_poisson(Stream s, double rate) { return whole(poisson(s, rate)); }

__device__ inline double whole_binomial(Stream s, double trials, double p) {
  return whole(binomial(s, trials, p));
}

__device__ inline unsigned long long both_words(Stream s) { return s.both_words(); }

// Random bits above, so that positions can come below.
__device__ inline unsigned long long high_bits(Stream s) {
  return static_cast<unsigned long long>(s.bits<unsigned>()) << 32;
}
