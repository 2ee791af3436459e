#include "guard.h"

#include <cpuid.h>
#include <sys/mman.h>

#include "settings.h"

namespace softgpu {
namespace {

// The register has two bits for a key: no access at all, and no writing.
unsigned bits_of(int key) { return 3u << (2 * key); }

unsigned read_rights() {
  unsigned low, high;
  asm volatile(".byte 0x0f, 0x01, 0xee" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

void write_rights(unsigned rights) {
  asm volatile(".byte 0x0f, 0x01, 0xef" : : "a"(rights), "c"(0), "d"(0) : "memory");
}

bool offered() {
  unsigned a, b, c, d;
  const bool known = __get_cpuid_count(7, 0, &a, &b, &c, &d);
  return known && (c >> 4 & 1);  // the system lets programs use protection keys
}

bool any_key = false;

}  // namespace

int guard_key(int) {
  if (!settings().guard || !offered()) return 0;
  const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  if (key < 0) return 0;  // there are 15; what comes later is not guarded
  any_key = true;
  return key;
}

bool guarded() { return any_key; }

void open_memory(void* start, size_t nbytes, int key) {
  if (key)
    pkey_mprotect(start, nbytes, PROT_READ | PROT_WRITE, key);
  else
    mprotect(start, nbytes, PROT_READ | PROT_WRITE);
}

Access::Access(const Device* own, Reach reach) : before_(0) {
  if (!any_key) return;
  before_ = read_rights();
  unsigned rights = before_;
  for (int n = 0; n < device_count(); ++n) {
    const bool may = reach == Reach::kAll || n == own->ordinal || own->reaches[n];
    const int key = device(n).key;
    if (!key) continue;
    rights = may ? rights & ~bits_of(key) : rights | bits_of(key);
  }
  write_rights(rights);
}

Access::~Access() {
  if (any_key) write_rights(before_);
}

}  // namespace softgpu

SOFTGPU_EXPORT int softgpu_guarded() {
  softgpu::enter(false);  // keys are taken when devices are made
  return softgpu::guarded();
}
