// Reading and writing at positions that are data.
//
// Positions of the whole array, from the end where they are negative, become offsets in bytes within
// a block: -1 where the element lies elsewhere, or nowhere. Updates of one element are made by one
// thread, one after the other in their order: results are NumPy's to the bit and do not depend on
// timing, and no atomic operations are needed.
#pragma once

// The offset in a dim of a block, -1 if it is outside.
template <typename Index>
__device__ inline long long offset_in(Index given, long long size, long long start,
                                      long long length, long long step) {
  long long at = static_cast<long long>(given);
  if (at < 0) at = given > Index(0) ? size : at + size;  // beyond 2^63 there is only "outside"
  if (at < 0 || at >= size) return -1;
  at -= start;
  return at >= 0 && at < length ? at * step : -1;
}

// Offsets in two dims together; blocks are dense, so that steps are not negative.
__device__ inline long long both(long long a, long long b) { return a < 0 || b < 0 ? -1 : a + b; }

template <typename T>
__device__ inline T& moved(T& x, long long bytes) {
  return *reinterpret_cast<T*>(reinterpret_cast<unsigned long long>(&x) + bytes);
}

// How an element and a value come together.
struct Replace {
  template <typename W, typename V>
  static __device__ W of(W a, V b) {
    return W(b);
  }
};

struct Add {
  template <typename W, typename V>
  static __device__ W of(W a, V b) {
    return W(a + b);
  }
};

struct Subtract {
  template <typename W, typename V>
  static __device__ W of(W a, V b) {
    return W(a - b);
  }
};

struct Multiply {
  template <typename W, typename V>
  static __device__ W of(W a, V b) {
    return W(a * b);
  }

  // Promoted to int, the product of two of them could overflow.
  static __device__ unsigned short of(unsigned short a, unsigned short b) {
    return static_cast<unsigned short>(1u * a * b);
  }
};

// Of floats.
struct Power {
  template <typename W, typename V>
  static __device__ W of(W a, V b) {
    return W(pow(a, W(b)));
  }
};

struct Divide {
  template <typename W, typename V>
  static __device__ W of(W a, V b) {
    return W(a / b);
  }
};

// A NaN on either side is the result, the first of two.
struct Minimum {
  template <typename W>
  static __device__ W of(W a, W b) {
    return a != a || !(b != b || b < a) ? a : b;
  }
};

struct Maximum {
  template <typename W>
  static __device__ W of(W a, W b) {
    return a != a || !(b != b || a < b) ? a : b;
  }
};

// Makes all updates of an element if number n is the first of them: for few updates.
//
// cell   the element at offset 0
// value  of update n; that of others lies at multiples of `step` from it
// keys   offsets of all updates
template <typename Op, typename W, typename V, typename T, typename Given>
__device__ inline void update_few(T& cell, const Given& value, long long step,
                                  const long long* keys, long long n, long long count) {
  const long long key = keys[n];
  if (key < 0) return;
  for (long long m = 0; m < n; ++m) {
    if (keys[m] == key) return;
  }
  T& target = moved(cell, key);
  W result = W(target);
  for (long long m = n; m < count; ++m) {
    if (keys[m] == key) result = Op::of(result, V(moved(value, (m - n) * step)));
  }
  target = T(result);
}

// The same where updates are sorted by keys: `order` has their numbers, of which j is the position.
// Runs of equal keys are walked along, so that they should be short; of values that replace one
// another the last one counts.
//
// value  of update 0
template <typename Op, typename W, typename V, typename T, typename Given>
__device__ inline void update_sorted(T& cell, const Given& value, long long step,
                                     const long long* keys, const long long* order, long long j,
                                     long long count, bool replaces) {
  const long long key = keys[order[j]];
  if (key < 0) return;
  T& target = moved(cell, key);
  if (replaces) {
    const bool last = j + 1 == count || keys[order[j + 1]] != key;
    if (last) target = T(W(V(moved(value, order[j] * step))));
    return;
  }
  if (j > 0 && keys[order[j - 1]] == key) return;
  W result = W(target);
  for (long long m = j; m < count && keys[order[m]] == key; ++m) {
    result = Op::of(result, V(moved(value, order[m] * step)));
  }
  target = T(result);
}
