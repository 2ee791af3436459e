// States of reductions that CuPy lacks, or that it does not give without waiting for the GPU.
#pragma once

// An extreme of what is no NaN; of nothing but NaNs it is one of them.
template <typename T>
struct Held {
  T value;
  bool there;

  __device__ Held() : value(), there(false) {}
  __device__ explicit Held(T x) : value(x), there(true) {}
};

// Which of two is further, where `down` looks for the least.
template <typename T>
__device__ inline Held<T> further(const Held<T>& a, const Held<T>& b, bool down) {
  if (!a.there) return b;
  if (!b.there) return a;
  if (a.value != a.value) return b;
  if (b.value != b.value) return a;
  return (down ? b.value < a.value : a.value < b.value) ? b : a;
}

// An element and where it is.
template <typename T>
struct Placed {
  T value;
  long long at;

  __device__ Placed() : value(), at(-1) {}
  __device__ Placed(T x, long long place) : value(x), at(place) {}
};

// Which of two is further, or NaN; the first one of equals, and of NaNs.
template <typename T>
__device__ inline Placed<T> first(const Placed<T>& a, const Placed<T>& b, bool down) {
  if (a.at < 0) return b;
  if (b.at < 0) return a;
  const bool none = a.value != a.value, other = b.value != b.value;
  if (none != other) return none ? a : b;
  if (none || a.value == b.value) return a.at < b.at ? a : b;
  return (down ? b.value < a.value : a.value < b.value) ? b : a;
}

// A position that says how long a dim has to be for it to be in bounds.
template <typename Index>
__device__ inline long long position(Index given) {
  const long long at = static_cast<long long>(given);
  return at < 0 && given > Index(0) ? 0x7FFFFFFFFFFFFFFFll : at;  // no dim is as long as that
}

// The one of two positions that takes the longer dim; from the front where both take the same.
__device__ inline long long outer(long long a, long long b) {
  const long long x = a < 0 ? -1 - a : a, y = b < 0 ? -1 - b : b;
  return y > x || (y == x && b > a) ? b : a;
}
