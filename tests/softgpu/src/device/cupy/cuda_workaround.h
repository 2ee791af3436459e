// What CuPy's header of this name gives to NVRTC. For other compilers that one is empty.
#pragma once
#pragma GCC system_header
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
