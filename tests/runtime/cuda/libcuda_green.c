// The driver's library as far as green contexts go, for cuda-bindings as it is: one GPU with the
// multiprocessors that a variable says, of which groups have a multiple of 8. Says what is called.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, INVALID_VALUE, NOT_SUPPORTED = 801, INVALID_RESOURCE_CONFIGURATION = 915 };

typedef struct {  // CUdevResource of CUDA 12 and 13
  int type;
  unsigned char padding[92];
  unsigned count;
  unsigned first;  // ours: the rest is the driver's own
  unsigned char oversize[40];
} Resource;

static uintptr_t handles = 0x1000;

int cuInit(unsigned flags) { return SUCCESS; }

int cuDriverGetVersion(int* version) {
  *version = atoi(getenv("FAKE_DRIVER"));
  return SUCCESS;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return SUCCESS;
}

int cuDeviceGetDevResource(int device, Resource* resource, int type) {
  if (type != 1) return INVALID_VALUE;
  memset(resource, 0, sizeof *resource);
  resource->type = type;
  resource->count = (unsigned)atoi(getenv("FAKE_MULTIPROCESSORS"));
  return SUCCESS;
}

int cuDevSmResourceSplitByCount(Resource* result, unsigned* groups, const Resource* input,
                                Resource* remaining, unsigned flags, unsigned least) {
  if (flags || input->type != 1 || least > input->count) return INVALID_VALUE;
  unsigned size = (least + 7) / 8 * 8;
  unsigned most = size ? input->count / size : 0;
  if (!most) return INVALID_RESOURCE_CONFIGURATION;
  if (result && *groups < most) most = *groups;
  for (unsigned n = 0; result && n < most; ++n) {
    result[n] = *input;
    result[n].count = size;
    result[n].first = n * size;
  }
  *groups = most;
  if (remaining) {
    *remaining = *input;
    remaining->count = input->count - most * size;
  }
  return SUCCESS;
}

int cuDevResourceGenerateDesc(Resource** description, const Resource* resources, unsigned count) {
  if (count != 1) return INVALID_VALUE;
  *description = malloc(sizeof(Resource));
  **description = *resources;
  return SUCCESS;
}

int cuGreenCtxCreate(uintptr_t* context, Resource* description, int device, unsigned flags) {
  if (flags != 1) return INVALID_VALUE;
  *context = handles += 0x10;
  printf("context %#lx on GPU %d from %u count %u\n", (unsigned long)*context, device,
         description->first, description->count);
  return SUCCESS;
}

int cuGreenCtxStreamCreate(uintptr_t* stream, uintptr_t context, unsigned flags, int priority) {
  if (flags != 1 || priority) return INVALID_VALUE;
  *stream = handles += 0x10;
  printf("stream %#lx of %#lx\n", (unsigned long)*stream, (unsigned long)context);
  return SUCCESS;
}

int cuStreamDestroy(uintptr_t stream) {
  printf("no stream %#lx\n", (unsigned long)stream);
  return SUCCESS;
}

int cuGreenCtxDestroy(uintptr_t context) {
  printf("no context %#lx\n", (unsigned long)context);
  fflush(stdout);
  return SUCCESS;
}

int not_supported(void) { return NOT_SUPPORTED; }

int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                        int* status) {
  static const struct {
    const char* name;
    void* function;
  } known[] = {
      {"cuInit", cuInit},
      {"cuDriverGetVersion", cuDriverGetVersion},
      {"cuDeviceGet", cuDeviceGet},
      {"cuDeviceGetDevResource", cuDeviceGetDevResource},
      {"cuDevSmResourceSplitByCount", cuDevSmResourceSplitByCount},
      {"cuDevResourceGenerateDesc", cuDevResourceGenerateDesc},
      {"cuGreenCtxCreate", cuGreenCtxCreate},
      {"cuGreenCtxStreamCreate", cuGreenCtxStreamCreate},
      {"cuStreamDestroy", cuStreamDestroy},
      {"cuGreenCtxDestroy", cuGreenCtxDestroy},
      {"cuGetProcAddress", cuGetProcAddress_v2},
  };
  if (status) *status = 0;
  *function = not_supported;
  for (size_t n = 0; n < sizeof known / sizeof *known; ++n)
    if (!strcmp(name, known[n].name)) *function = known[n].function;
  return SUCCESS;
}

int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
