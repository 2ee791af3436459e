// Runs kernels on the CPU on cases from standard input and writes what their memory holds
// afterwards to standard output, where Python compares it. Each allocation is exact to the byte, so
// that a sanitizer sees every miss.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cuda_shim.h"

inline bool take(void* into, std::size_t bytes) {
  return bytes == 0 || std::fread(into, bytes, 1, stdin) == 1;
}

template <typename Value>
Value taken() {
  Value value;
  if (!take(&value, sizeof value)) {
    std::fprintf(stderr, "a case is cut short\n");
    std::exit(2);
  }
  return value;
}

template <typename Value>
std::vector<Value> taken(std::size_t count) {
  std::vector<Value> values(count);
  if (!take(values.data(), count * sizeof(Value))) {
    std::fprintf(stderr, "a case is cut short\n");
    std::exit(2);
  }
  return values;
}

struct Free {
  void operator()(unsigned char* memory) const { std::free(memory); }
};

inline std::unique_ptr<unsigned char, Free> allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, bytes) != 0) std::abort();
  return std::unique_ptr<unsigned char, Free>(static_cast<unsigned char*>(memory));
}

// The allocations of a case. An address in the case is (number of the allocation, from 1) << 40
// plus an offset.
class Memory {
 public:
  Memory() : contents_(taken<std::uint32_t>()) {
    for (auto& content : contents_) {
      content = taken<unsigned char>(taken<std::uint64_t>());
      allocations_.push_back(allocate(content.size()));
    }
    restore();
  }

  void restore() {
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      std::copy(contents_[i].begin(), contents_[i].end(), allocations_[i].get());
    }
  }

  void write() const {
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      std::fwrite(allocations_[i].get(), 1, contents_[i].size(), stdout);
    }
  }

  void relocate(unsigned long long& address) const {
    const auto base = allocations_.at((address >> 40) - 1).get();
    address = reinterpret_cast<std::uintptr_t>(base) + (address & ((1ull << 40) - 1));
  }

 private:
  std::vector<std::vector<unsigned char>> contents_;
  std::vector<std::unique_ptr<unsigned char, Free>> allocations_;
};

// Calls `run` for each case of the input.
template <typename Run>
int run_cases(const Run& run) {
  for (auto count = taken<std::uint32_t>(); count > 0; --count) run();
  return 0;
}
