// The driver's library as far as counting GPUs goes: its version and the error of cuInit are set
// by variables. It has no GPU.

#include <stdlib.h>
#include <string.h>

static int number(const char* variable) { return atoi(getenv(variable)); }

int cuInit(unsigned flags) { return number("FAKE_INIT"); }

int cuDriverGetVersion(int* version) {
  *version = number("FAKE_DRIVER");
  return 0;
}

int not_supported(void) { return 801; }

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long flags,
                        int* status) {
  if (status) *status = 0;
  if (!strcmp(name, "cuInit")) {
    *function = cuInit;
  } else if (!strcmp(name, "cuDriverGetVersion")) {
    *function = cuDriverGetVersion;
  } else if (!strcmp(name, "cuGetProcAddress")) {
    *function = cuGetProcAddress_v2;
  } else {
    *function = not_supported;
  }
  return 0;
}

int cuGetProcAddress(const char* name, void** function, int version, unsigned long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
