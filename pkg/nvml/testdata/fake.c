// A stand-in for libnvidia-ml.so.1 that does as it is told, for the answers that
// hardware gives only when it is ill. Its GPUs are alike and hold one MIG profile.
//
//   FAKE_GPUS    how many GPUs there are; 1 if unset
//   FAKE_FAULTS  "call@gpu=code,...": what a call returns for the GPU with this
//                index, -1 for calls on no GPU; "call@gpu=*" succeeds in vain
//   FAKE_FABRIC  "state status clique uuid": what all GPUs say of their NVLink
//                fabric, the UUID as 32 digits; no fabric if unset
//
// Compiled with -DOLD it lacks what driver 450 did not have to have, with
// -DNO_MIG all of MIG, with -DANCIENT a call that is always needed, with
// -DFIRST_FABRIC the versioned form of the call about the fabric.
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE 0
#define VAIN -1

struct nvmlDevice_st { int index, mig; };
struct nvmlComputeInstance_st { int live; struct nvmlGpuInstance_st *gi; };
struct nvmlGpuInstance_st { int live, start, gpu; struct nvmlDevice_st device; struct nvmlComputeInstance_st ci; };

static struct nvmlDevice_st gpus[16];
static struct nvmlGpuInstance_st instances[16][7];
static int mode[16], compute[16], serial;

static int fault(const char *call, int gpu) {
  char key[128];
  snprintf(key, sizeof key, "%s@%d=", call, gpu);
  const char *f = getenv("FAKE_FAULTS"), *at = f ? strstr(f, key) : NULL;
  if (!at) return NONE;
  at += strlen(key);
  return *at == '*' ? VAIN : atoi(at);
}
#define ANSWER(call, gpu) int f_ = fault(call, gpu); if (f_ == VAIN) return NVML_SUCCESS; if (f_) return f_
#define ON(d, call) ANSWER(call, (d).handle->index)

const char *nvmlErrorString(nvmlReturn_t r) { return r == NVML_ERROR_UNKNOWN ? "Unknown Error" : "Some Error"; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  ANSWER("nvmlInitWithFlags", -1);
  for (int i = 0; i < 16; i++) gpus[i].index = i;
  return NVML_SUCCESS;
}
#ifndef ANCIENT
nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int n) {
  ANSWER("nvmlSystemGetDriverVersion", -1);
  snprintf(v, n, "580.95.05");
  return NVML_SUCCESS;
}
#endif
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n) {
  ANSWER("nvmlDeviceGetCount", -1);
  *n = getenv("FAKE_GPUS") ? atoi(getenv("FAKE_GPUS")) : 1;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d) {
  ANSWER("nvmlDeviceGetHandleByIndex", i);
  d->handle = &gpus[i];
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *d) {
  unsigned int domain, bus;
  unsigned int n = getenv("FAKE_GPUS") ? atoi(getenv("FAKE_GPUS")) : 1;
  if (sscanf(id, "%x:%x:", &domain, &bus) != 2 || bus < 0x10 || bus - 0x10 >= n) return NVML_ERROR_NOT_FOUND;
  ANSWER("nvmlDeviceGetHandleByPciBusId", (int)(bus - 0x10));
  d->handle = &gpus[bus - 0x10];
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) {
  ON(d, "nvmlDeviceGetPciInfo");
  snprintf(p->busId, sizeof p->busId, "00000000:%02X:00.0", 0x10 + d.handle->index);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *u, unsigned int n) {
  ON(d, d.handle->mig ? "MIG UUID" : "nvmlDeviceGetUUID");
  if (d.handle->mig) snprintf(u, n, "MIG-%d", d.handle->mig);
  else snprintf(u, n, "GPU-%d", d.handle->index);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *m) {
  ON(d, "nvmlDeviceGetMinorNumber");
  *m = d.handle->index + 3;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *s, unsigned int n) {
  ON(d, "nvmlDeviceGetName");
  snprintf(s, n, "NVIDIA H100 80GB HBM3");
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) {
  ON(d, "nvmlDeviceGetMemoryInfo");
  m->total = 81559ull << 20;
  return NVML_SUCCESS;
}
#ifndef OLD
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { *v = 13000; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t d, nvmlBrandType_t *b) {
  ON(d, "nvmlDeviceGetBrand");
  *b = NVML_BRAND_NVIDIA;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t d, nvmlDeviceArchitecture_t *a) {
  ON(d, "nvmlDeviceGetArchitecture");
  *a = NVML_DEVICE_ARCH_HOPPER;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor) {
  ON(d, "nvmlDeviceGetCudaComputeCapability");
  *major = 9, *minor = 0;
  return NVML_SUCCESS;
}
static void fabric(unsigned char *uuid, nvmlReturn_t *status, unsigned int *clique, nvmlGpuFabricState_t *state) {
  const char *f = getenv("FAKE_FABRIC");
  unsigned int s = 0, result = 0;
  int at = 0;
  *clique = 0;
  memset(uuid, 0, NVML_GPU_FABRIC_UUID_LEN);
  if (f && sscanf(f, "%u %u %u %n", &s, &result, clique, &at) == 3)
    for (int i = 0; i < NVML_GPU_FABRIC_UUID_LEN; i++) sscanf(f + at + 2 * i, "%2hhx", &uuid[i]);
  *state = s, *status = result;
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *i) {
  ON(d, "nvmlDeviceGetGpuFabricInfo");
  fabric(i->clusterUuid, &i->status, &i->cliqueId, &i->state);
  return NVML_SUCCESS;
}
#ifndef FIRST_FABRIC
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfoV_t *i) {
  int newest = i->version == nvmlGpuFabricInfo_v3;
  if (!newest && i->version != nvmlGpuFabricInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  ON(d, newest ? "nvmlDeviceGetGpuFabricInfoV/3" : "nvmlDeviceGetGpuFabricInfoV/2");
  fabric(i->clusterUuid, &i->status, &i->cliqueId, &i->state);
  return NVML_SUCCESS;
}
#endif
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, nvmlComputeMode_t *m) { *m = compute[d.handle->index]; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t d, nvmlComputeMode_t m) {
  ON(d, "nvmlDeviceSetComputeMode");
  compute[d.handle->index] = m;
  return NVML_SUCCESS;
}
#endif
#ifndef NO_MIG
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending) {
  ON(d, "nvmlDeviceGetMigMode");
  *current = *pending = mode[d.handle->index];
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t d, unsigned int m, nvmlReturn_t *activation) {
  *activation = fault("activation", d.handle->index);
  ON(d, "nvmlDeviceSetMigMode");
  if (!*activation) mode[d.handle->index] = m;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned int p, nvmlGpuInstanceProfileInfo_t *i) {
  if (p > NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1) return NVML_ERROR_INVALID_ARGUMENT;
  if (p != NVML_GPU_INSTANCE_PROFILE_1_SLICE) return NVML_ERROR_NOT_SUPPORTED;
  ON(d, "nvmlDeviceGetGpuInstanceProfileInfo");
  *i = (nvmlGpuInstanceProfileInfo_t){.id = 19, .sliceCount = 1, .instanceCount = 7, .multiprocessorCount = 16,
    .copyEngineCount = 1, .decoderCount = 1, .jpegCount = 1, .memorySizeMB = 9984};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t d, unsigned int id, nvmlGpuInstancePlacement_t *p, unsigned int *n) {
  ON(d, "nvmlDeviceGetGpuInstancePossiblePlacements");
  for (int i = 0; p && i < 7; i++) p[i] = (nvmlGpuInstancePlacement_t){6 - i, 1};
  *n = 7;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t d, unsigned int id, const nvmlGpuInstancePlacement_t *p, nvmlGpuInstance_t *gi) {
  int start = fault("elsewhere", d.handle->index) ? 0 : p->start;
  ON(d, "nvmlDeviceCreateGpuInstanceWithPlacement");
  if (!mode[d.handle->index]) return NVML_ERROR_NOT_SUPPORTED;
  struct nvmlGpuInstance_st *g = &instances[d.handle->index][start];
  if (g->live) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  *g = (struct nvmlGpuInstance_st){.live = 1, .start = start, .gpu = d.handle->index};
  g->ci.gi = g, g->device.index = d.handle->index;
  gi->handle = g;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t h) {
  struct nvmlGpuInstance_st *g = h.handle;
  ANSWER("nvmlGpuInstanceDestroy", g->gpu);
  if (g->ci.live) return NVML_ERROR_IN_USE;
  g->live = 0;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t d, unsigned int id, nvmlGpuInstance_t *list, unsigned int *n) {
  ON(d, "nvmlDeviceGetGpuInstances");
  *n = 0;
  for (int i = 0; i < 7; i++) if (instances[d.handle->index][i].live) list[(*n)++].handle = &instances[d.handle->index][i];
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t d, unsigned int id, nvmlGpuInstance_t *g) {
  if (id < 7 || id > 13 || !instances[d.handle->index][id - 7].live) return NVML_ERROR_NOT_FOUND;
  g->handle = &instances[d.handle->index][id - 7];
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t h, nvmlGpuInstanceInfo_t *i) {
  struct nvmlGpuInstance_st *g = h.handle;
  ANSWER("nvmlGpuInstanceGetInfo", g->gpu);
  *i = (nvmlGpuInstanceInfo_t){.device = {&gpus[g->gpu]}, .id = g->start + 7, .profileId = 19, .placement = {g->start, 1}};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t h, unsigned int p, unsigned int e, nvmlComputeInstanceProfileInfo_t *i) {
  struct nvmlGpuInstance_st *g = h.handle;
  if (p != NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE) return NVML_ERROR_NOT_SUPPORTED;
  ANSWER("nvmlGpuInstanceGetComputeInstanceProfileInfo", g->gpu);
  *i = (nvmlComputeInstanceProfileInfo_t){.id = 0, .sliceCount = 1, .instanceCount = 1, .multiprocessorCount = 16};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t h, unsigned int id, nvmlComputeInstance_t *ci) {
  struct nvmlGpuInstance_st *g = h.handle;
  ANSWER("nvmlGpuInstanceCreateComputeInstance", g->gpu);
  if (g->ci.live) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  g->ci.live = 1, g->device.mig = ++serial;
  ci->handle = &g->ci;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t h) {
  struct nvmlComputeInstance_st *ci = h.handle;
  ANSWER("nvmlComputeInstanceDestroy", ci->gi->gpu);
  ci->live = 0;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t h, unsigned int id, nvmlComputeInstance_t *list, unsigned int *n) {
  struct nvmlGpuInstance_st *g = h.handle;
  *n = g->ci.live;
  list[0].handle = &g->ci;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t h, unsigned int id, nvmlComputeInstance_t *ci) {
  struct nvmlGpuInstance_st *g = h.handle;
  if (id || !g->ci.live) return NVML_ERROR_NOT_FOUND;
  ci->handle = &g->ci;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t h, nvmlComputeInstanceInfo_t *i) {
  struct nvmlComputeInstance_st *ci = h.handle;
  ANSWER("nvmlComputeInstanceGetInfo", ci->gi->gpu);
  *i = (nvmlComputeInstanceInfo_t){.device = {&ci->gi->device}, .gpuInstance = {ci->gi}, .id = 0, .profileId = 0};
  return NVML_SUCCESS;
}
#endif
