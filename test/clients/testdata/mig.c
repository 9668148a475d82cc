/*
 * An NVML client that knows nothing but nvml.h: it lists the devices, makes a MIG
 * device and removes it, waits for an event, and says what it sees. Handles are
 * pointers in NVIDIA's header and structs in the one that comes with go-nvml, so
 * nothing here looks into them.
 */
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *what, nvmlReturn_t got)
{
    if (got == NVML_SUCCESS)
        return;
    printf("%s: %d (%s)\n", what, got, nvmlErrorString(got));
    exit(1);
}

static nvmlDevice_t list(void)
{
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    nvmlDevice_t first = {0};
    unsigned int count;

    check("count", nvmlDeviceGetCount(&count));
    for (unsigned int i = 0; i < count; i++) {
        nvmlDevice_t device;
        nvmlPciInfo_t pci;
        nvmlMemory_t memory;

        check("handle", nvmlDeviceGetHandleByIndex(i, &device));
        check("name", nvmlDeviceGetName(device, name, sizeof(name)));
        check("PCI", nvmlDeviceGetPciInfo(device, &pci));
        check("memory", nvmlDeviceGetMemoryInfo(device, &memory));
        printf("GPU %u: %s at %s, %llu MiB\n", i, name, pci.busId, memory.total >> 20);
        if (i == 0)
            first = device;
    }
    return first;
}

static void make_and_remove(nvmlDevice_t gpu)
{
    nvmlComputeInstanceProfileInfo_t inner;
    nvmlGpuInstanceProfileInfo_t profile;
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    nvmlReturn_t activation;
    nvmlComputeInstance_t ci;
    nvmlGpuInstance_t gi;
    unsigned int id, is;
    nvmlDevice_t mig;

    check("MIG on", nvmlDeviceSetMigMode(gpu, NVML_DEVICE_MIG_ENABLE, &activation));
    check("activation", activation);
    check("profile", nvmlDeviceGetGpuInstanceProfileInfo(gpu, NVML_GPU_INSTANCE_PROFILE_1_SLICE, &profile));
    check("create GPU instance", nvmlDeviceCreateGpuInstance(gpu, profile.id, &gi));
    check("compute profile", nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE,
                                                                          NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &inner));
    check("create compute instance", nvmlGpuInstanceCreateComputeInstance(gi, inner.id, &ci));
    check("MIG device", nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &mig));
    check("is one", nvmlDeviceIsMigDeviceHandle(mig, &is));
    check("UUID", nvmlDeviceGetUUID(mig, uuid, sizeof(uuid)));
    check("GPU instance id", nvmlDeviceGetGpuInstanceId(mig, &id));
    printf("MIG device %u: %.4s, GPU instance of %llu MiB: %s\n", is, uuid, profile.memorySizeMB, id < 15 ? "numbered" : "not numbered");
    check("destroy compute instance", nvmlComputeInstanceDestroy(ci));
    check("destroy GPU instance", nvmlGpuInstanceDestroy(gi));
    printf("gone: %d\n", nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &mig));
    check("MIG off", nvmlDeviceSetMigMode(gpu, NVML_DEVICE_MIG_DISABLE, &activation));
}

static void wait_for_event(nvmlDevice_t gpu)
{
    nvmlEventData_t event;
    nvmlEventSet_t set;

    check("create set", nvmlEventSetCreate(&set));
    check("register", nvmlDeviceRegisterEvents(gpu, nvmlEventTypeXidCriticalError, set));
    printf("without an event: %d\n", nvmlEventSetWait(set, &event, 0));
    printf("waiting\n");
    fflush(stdout);
    check("wait", nvmlEventSetWait(set, &event, 60000));
    printf("event %llu with %llu on %s, instances %x %x\n", event.eventType, event.eventData,
           memcmp(&event.device, &gpu, sizeof(gpu)) == 0 ? "the GPU" : "another GPU", event.gpuInstanceId, event.computeInstanceId);
    check("free", nvmlEventSetFree(set));
}

int main(void)
{
    nvmlDevice_t gpu;

    check("init", nvmlInit());
    gpu = list();
    make_and_remove(gpu);
    wait_for_event(gpu);
    check("shutdown", nvmlShutdown());
    return 0;
}
