// Counts by value, and places in what is sorted.
#pragma once

// How many of the ascending numbers are at most `x`.
template <typename T, typename Sorted>
__device__ inline long long rank_of(const Sorted& sorted, long long count, T x) {
  long long low = 0;
  while (count > 0) {
    const long long half = count / 2;
    if (!(x < static_cast<T>(sorted[low + half]))) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

// The number of the bin of `x`, whose last one has both its edges and others only the lower; -1 if
// it is in none.
template <typename T, typename Edges>
__device__ inline long long bin_of(const Edges& edges, long long bins, T x) {
  if (!(x >= static_cast<T>(edges[0]) && x <= static_cast<T>(edges[bins]))) return -1;
  const long long at = rank_of(edges, bins + 1, x) - 1;
  return at < bins ? at : bins - 1;
}
