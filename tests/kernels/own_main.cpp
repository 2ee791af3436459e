// Runs the functions of kernels/*.cuh on the CPU: the first number of a case says which.
#include <math.h>

#include "harness.h"
#include "../../kernels/counting.cuh"
#include "../../kernels/indexing.cuh"
#include "../../kernels/random.cuh"
#include "../../kernels/reduction.cuh"

template <typename T>
void write(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

// A number for each position from a first one on.
template <typename T, typename Draw>
void draw(const Draw& one) {
  const auto keys = taken<unsigned>(2);
  const auto first = taken<std::uint64_t>(), count = taken<std::uint64_t>();
  std::vector<T> drawn(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    drawn[i] = static_cast<T>(one(stream_of(keys.data(), 0, first + i, first + count)));
  }
  write(drawn);
}

// Updates of a vector, by a thread for each; those that are sorted and those that are few.
template <typename Op, typename T>
void update() {
  const auto length = taken<std::uint64_t>(), count = taken<std::uint64_t>();
  const auto x = taken<T>(length), values = taken<T>(count);
  const auto at = taken<long long>(count), order = taken<long long>(count);
  const auto start = taken<long long>(), size = taken<long long>();
  std::vector<long long> keys(count);
  for (std::uint64_t n = 0; n < count; ++n) {
    keys[n] = offset_in(at[n], size, start, static_cast<long long>(length), sizeof(T));
  }
  constexpr bool kReplaces = std::is_same_v<Op, Replace>;
  for (const bool sorted : {false, true}) {
    auto made = x;
    shim_launch_apart((count + 31) / 32, 32, [&] {
      const std::uint64_t n = blockIdx.x * 32 + threadIdx.x;
      if (n >= count) return;
      if (sorted) {
        update_sorted<Op, T, T>(made[0], values[0], sizeof(T), keys.data(), order.data(), n, count,
                                kReplaces);
      } else {
        update_few<Op, T, T>(made[0], values[n], sizeof(T), keys.data(), n, count);
      }
    });
    write(made);
  }
}

void find_bins() {
  const auto bins = taken<std::uint64_t>(), count = taken<std::uint64_t>();
  const auto edges = taken<double>(bins + 1), x = taken<double>(count);
  std::vector<long long> found(count);
  for (std::uint64_t i = 0; i < count; ++i) found[i] = bin_of(edges.data(), bins, x[i]);
  write(found);
}

void reduce() {
  const auto count = taken<std::uint64_t>();
  const auto x = taken<double>(count);
  Held<double> least, most;
  for (const double one : x) {
    least = further(least, Held<double>(one), true);
    most = further(Held<double>(one), most, false);
  }
  write(std::vector<double>{least.value, most.value});
  long long furthest = -1;
  for (const double one : x) {
    if (one == one) furthest = outer(furthest, position(static_cast<long long>(one)));
  }
  write(std::vector<long long>{furthest});
  Placed<double> low, high;
  for (std::uint64_t i = count; i-- > 0;) {
    low = first(low, Placed<double>(x[i], i), true);
    high = first(Placed<double>(x[i], i), high, false);
  }
  write(std::vector<long long>{low.at, high.at});
}

int main() {
  return run_cases([] {
    switch (taken<std::uint32_t>()) {
      case 0: return draw<std::uint8_t>(random_bits<std::uint8_t>);
      case 1: return draw<std::uint64_t>(random_bits<std::uint64_t>);
      case 2: return draw<float>([](Stream s) { return uniform<float>(s, -2.5f, 7.25f); });
      case 3: return draw<double>([](Stream s) { return uniform<double>(s); });
      case 4: return draw<float>(normal<float>);
      case 5: return draw<double>(normal<double>);
      case 6: return draw<int>([](Stream s) { return random_integer<int>(s, -3, 99); });
      case 7: return draw<long long>([](Stream s) {
          return random_integer<long long>(s, -3, 5'000'000'000'000'000'000);
        });
      case 8: return draw<double>([](Stream s) { return gamma_number(s, 0.3); });
      case 9: return draw<double>([](Stream s) { return whole_poisson(s, 40.0); });
      case 10: return draw<double>([](Stream s) { return whole_poisson(s, 3.0); });
      case 11: return draw<double>([](Stream s) { return binomial(s, 100, 0.4); });
      case 12: return draw<float>([](Stream s) {
          return truncated_normal<float>(s, -0.5f, 1.5f);
        });
      case 13: return draw<double>(maxwell<double>);
      case 14: return draw<double>([](Stream s) { return gumbel_high(s, 2.0); });
      case 20: return update<Replace, int>();
      case 21: return update<Add, double>();
      case 22: return update<Multiply, unsigned>();
      case 23: return update<Maximum, double>();
      case 24: return update<Divide, double>();
      case 30: return find_bins();
      default: return reduce();
    }
  });
}
