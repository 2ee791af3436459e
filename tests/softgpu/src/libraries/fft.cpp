// cuFFT: transforms of up to three dims, computed in double precision.
//
// As with cuFFT, results go through the work area of the plan, so that two streams that use one
// plan at the same time spoil each other's.
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include "library.h"

namespace softgpu {
namespace {

enum Status { kSuccess = 0, kInvalidPlan = 1, kInvalidValue = 4, kNotSupported = 16 };
enum Direction { kForward = -1, kInverse = 1 };

using Z = std::complex<double>;

// How elements lie in memory, for input or output.
struct Layout {
  std::vector<long> embedded = {};  // lengths of the dims of the array that they lie in
  long stride = 1;
  long distance = 0;  // from one transform of the batch to the next
};

struct Plan {
  std::vector<long> lengths = {};
  Layout input = {}, output = {};
  int batch = 1;
  void* stream = nullptr;
  void* work = nullptr;

  long size() const {
    long product = 1;
    for (long n : lengths) product *= n;
    return product;
  }
};

std::mutex lock;
std::map<int, Plan> plans;

Plan get(int number) {
  std::lock_guard held(lock);
  return plans[number];
}

template <class Change>
int change(int number, Change&& apply) {
  std::lock_guard held(lock);
  auto found = plans.find(number);
  if (found == plans.end()) return kInvalidPlan;
  apply(found->second);
  return kSuccess;
}

long smallest_factor(long n) {
  for (long factor = 2; factor * factor <= n; ++factor)
    if (n % factor == 0) return factor;
  return n;
}

// The transform of every stride-th of n values, by splitting off the smallest factor of n.
// J. W. Cooley and J. W. Tukey, "An algorithm for the machine calculation of complex Fourier
// series" (1965).
std::vector<Z> transform(const Z* values, long n, long stride, int sign) {
  if (n == 1) return {values[0]};
  const long parts = smallest_factor(n), length = n / parts;
  std::vector<std::vector<Z>> of_parts;
  for (long p = 0; p < parts; ++p)
    of_parts.push_back(transform(values + p * stride, length, stride * parts, sign));
  std::vector<Z> result(n);
  for (long k = 0; k < n; ++k)
    for (long p = 0; p < parts; ++p)
      result[k] += of_parts[p][k % length] * std::polar(1.0, sign * 2 * M_PI * (p * k % n) / n);
  return result;
}

// In place, along each dim of a contiguous array.
void transform_dims(std::vector<Z>& values, const std::vector<long>& lengths, int sign) {
  long inner = static_cast<long>(values.size());
  for (long n : lengths) {
    inner /= n;
    for (long first = 0; first < static_cast<long>(values.size()); first += n * inner)
      for (long i = 0; i < inner; ++i) {
        const auto made = transform(&values[first + i], n, inner, sign);
        for (long k = 0; k < n; ++k) values[first + i + k * inner] = made[k];
      }
  }
}

// Calls a function with the position in C order and the offset in memory of each element.
template <class Function>
void each(const std::vector<long>& lengths, const Layout& layout, Function&& call) {
  long size = 1;
  for (long n : lengths) size *= n;
  for (long position = 0; position < size; ++position) {
    long left = position, offset = 0, scale = 1;
    for (size_t dim = lengths.size(); dim-- > 0;) {
      offset += left % lengths[dim] * scale;
      left /= lengths[dim];
      scale *= layout.embedded[dim];
    }
    call(position, offset * layout.stride);
  }
}

// The first half of the last dim, which says all of a transform of real numbers.
std::vector<long> halved(std::vector<long> lengths) {
  lengths.back() = lengths.back() / 2 + 1;
  return lengths;
}

// The other half of a Hermitian array, from its first.
std::vector<Z> completed(const std::vector<Z>& half, const std::vector<long>& lengths) {
  const long last = lengths.back(), kept = last / 2 + 1;
  const long rows = static_cast<long>(half.size()) / kept;
  std::vector<Z> all(rows * last);
  for (long row = 0; row < rows; ++row) {
    long mirrored = 0, left = row, scale = 1;  // the row of the opposite indices
    for (size_t dim = lengths.size() - 1; dim-- > 0;) {
      const long n = lengths[dim];
      mirrored += (n - left % n) % n * scale;
      left /= n;
      scale *= n;
    }
    for (long k = 0; k < last; ++k)
      all[row * last + k] =
          k < kept ? half[row * kept + k] : std::conj(half[mirrored * kept + last - k]);
    // These of each row must be real for the result to be; only their real parts count.
    if (rows == 1) all[0] = all[0].real();
    if (rows == 1 && last % 2 == 0) all[last / 2] = all[last / 2].real();
  }
  return all;
}

template <class T>
T cast(Z value) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value.real());
  else
    return T(value);
}

template <class In, class Out>
int execute(int number, const In* in, Out* out, int sign) {
  const Plan plan = get(number);
  if (plan.lengths.empty()) return kInvalidPlan;
  constexpr bool from_real = std::is_floating_point_v<In>, to_real = std::is_floating_point_v<Out>;
  const auto read = to_real ? halved(plan.lengths) : plan.lengths;
  const auto written = from_real ? halved(plan.lengths) : plan.lengths;
  auto* work = static_cast<Z*>(plan.work);
  give(plan.stream, [=] {
    for (long b = 0; b < plan.batch; ++b) {
      long size = 1;
      for (long n : read) size *= n;
      std::vector<Z> values(size);
      const In* first = in + b * plan.input.distance;
      each(read, plan.input, [&](long n, long offset) { values[n] = Z(first[offset]); });
      if (to_real) values = completed(values, plan.lengths);
      transform_dims(values, plan.lengths, sign);
      memcpy(static_cast<void*>(work + b * plan.size()), values.data(), values.size() * sizeof(Z));
    }
  });
  give(plan.stream, [=] {
    const long full = plan.lengths.back(), kept = written.back();
    for (long b = 0; b < plan.batch; ++b) {
      const Z* values = work + b * plan.size();
      Out* first = out + b * plan.output.distance;
      each(written, plan.output, [&](long n, long offset) {
        first[offset] = cast<Out>(values[n / kept * full + n % kept]);
      });
    }
  });
  return kSuccess;
}

// Whether a type of transform (CUFFT_R2C and so on) reads or writes the first half only.
bool halves_output(int type) { return type == 0x2a || type == 0x6a; }
bool halves_input(int type) { return type == 0x2c || type == 0x6c; }

Layout layout(const std::vector<long>& lengths, bool half, const long long* embedded,
              long long stride, long long distance) {
  Layout made;
  made.embedded = half ? halved(lengths) : lengths;
  made.distance = 1;
  for (long n : made.embedded) made.distance *= n;
  if (!embedded) return made;
  made.embedded.assign(embedded, embedded + lengths.size());
  made.stride = stride;
  made.distance = distance;
  return made;
}

int make(int number, std::vector<long> lengths, const long long* in_embedded, long long in_stride,
         long long in_distance, const long long* out_embedded, long long out_stride,
         long long out_distance, int type, int batch, size_t* work) {
  return change(number, [&](Plan& plan) {
    plan.lengths = lengths;
    plan.input = layout(lengths, halves_input(type), in_embedded, in_stride, in_distance);
    plan.output = layout(lengths, halves_output(type), out_embedded, out_stride, out_distance);
    plan.batch = batch;
    *work = size_t(plan.size()) * batch * sizeof(Z);
  });
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

SOFTGPU_EXPORT int cufftCreate(int* made) {
  static int next = 1;
  std::lock_guard held(lock);
  *made = next++;
  plans[*made] = {};
  return kSuccess;
}

SOFTGPU_EXPORT int cufftDestroy(int number) {
  std::lock_guard held(lock);
  return plans.erase(number) ? kSuccess : kInvalidPlan;
}

// CuPy gives each plan its work area.
SOFTGPU_EXPORT int cufftSetAutoAllocation(int, int automatic) {
  return automatic ? kNotSupported : kSuccess;
}

SOFTGPU_EXPORT int cufftSetWorkArea(int number, void* work) {
  return change(number, [&](Plan& plan) { plan.work = work; });
}

SOFTGPU_EXPORT int cufftSetStream(int number, void* stream) {
  return change(number, [&](Plan& plan) { plan.stream = stream; });
}

SOFTGPU_EXPORT int cufftGetVersion(int* version) {
  *version = SOFTGPU_CUDA_MAJOR > 12 ? 12000 : 11400;
  return kSuccess;
}

SOFTGPU_EXPORT int cufftMakePlan1d(int number, int n, int type, int batch, size_t* work) {
  return make(number, {n}, nullptr, 1, 0, nullptr, 1, 0, type, batch, work);
}

SOFTGPU_EXPORT int cufftMakePlanMany64(int number, int rank, long long* lengths,
                                       long long* in_embedded, long long in_stride,
                                       long long in_distance, long long* out_embedded,
                                       long long out_stride, long long out_distance, int type,
                                       long long batch, size_t* work) {
  return make(number, std::vector<long>(lengths, lengths + rank), in_embedded, in_stride,
              in_distance, out_embedded, out_stride, out_distance, type, static_cast<int>(batch),
              work);
}

SOFTGPU_EXPORT int cufftMakePlanMany(int number, int rank, int* lengths, int* in_embedded,
                                     int in_stride, int in_distance, int* out_embedded,
                                     int out_stride, int out_distance, int type, int batch,
                                     size_t* work) {
  std::vector<long long> in, out;
  if (in_embedded) in.assign(in_embedded, in_embedded + rank);
  if (out_embedded) out.assign(out_embedded, out_embedded + rank);
  return make(number, std::vector<long>(lengths, lengths + rank), in.empty() ? nullptr : in.data(),
              in_stride, in_distance, out.empty() ? nullptr : out.data(), out_stride, out_distance,
              type, batch, work);
}

using Complex = std::complex<float>;

SOFTGPU_EXPORT int cufftExecC2C(int plan, Complex* in, Complex* out, int direction) {
  return execute(plan, in, out, direction);
}
SOFTGPU_EXPORT int cufftExecZ2Z(int plan, Z* in, Z* out, int direction) {
  return execute(plan, in, out, direction);
}
SOFTGPU_EXPORT int cufftExecR2C(int plan, float* in, Complex* out) {
  return execute(plan, in, out, kForward);
}
SOFTGPU_EXPORT int cufftExecD2Z(int plan, double* in, Z* out) {
  return execute(plan, in, out, kForward);
}
SOFTGPU_EXPORT int cufftExecC2R(int plan, Complex* in, float* out) {
  return execute(plan, in, out, kInverse);
}
SOFTGPU_EXPORT int cufftExecZ2D(int plan, Z* in, double* out) {
  return execute(plan, in, out, kInverse);
}
