#include "settings.h"

#include <cstdlib>

namespace softgpu {
namespace {

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

Settings read() {
  Settings made{};
  made.devices = static_cast<int>(number("SOFTGPU_DEVICES", 1));
  made.memory = number("SOFTGPU_MEMORY", uint64_t(8) << 30);
  const char* seed = getenv("SOFTGPU_SEED");
  made.seeded = seed && *seed;
  made.seed = number("SOFTGPU_SEED", 0);
  made.peers = number("SOFTGPU_PEERS", 1) != 0;
  made.guard = number("SOFTGPU_GUARD", 1) != 0;
  return made;
}

}  // namespace

const Settings& settings() {
  static const Settings made = read();
  return made;
}

}  // namespace softgpu
