/*
 * The forwarding half of the simulated libnvidia-ml.so.1. It knows nothing about
 * GPUs: exports.c, generated from nvml.h, hands every call here with the bytes of
 * its arguments, and the simulator's answer says what to write where.
 */
#ifndef CLEAVE_SHIM_H
#define CLEAVE_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define API __attribute__((visibility("default")))

/* The return codes that the shim gives of its own (nvml.h, nvmlReturn_t). */
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_UNKNOWN = 999,
};

enum { KIND_VALUE = 0, KIND_POINTER = 1, KIND_NULL = 2 };

/* The room behind an array pointer whose length no argument tells. */
#define UNBOUNDED UINT32_MAX

struct arg {
    uint8_t kind;
    uint32_t in_len;   /* bytes to send */
    uint32_t capacity; /* bytes that may be written */
    const void *in;
    void *out;
};

static inline struct arg arg_value(const void *p, uint32_t size)
{
    return (struct arg){KIND_VALUE, size, 0, p, NULL};
}

static inline struct arg arg_pointer(const void *in, uint32_t in_len, void *out, uint64_t capacity)
{
    if (in == NULL && out == NULL)
        return (struct arg){KIND_NULL, 0, 0, NULL, NULL};
    if (capacity >= UNBOUNDED && capacity != UNBOUNDED)
        capacity = UNBOUNDED - 1;
    return (struct arg){KIND_POINTER, in_len, (uint32_t)capacity, in, out};
}

/* A C string that is only read. */
static inline struct arg arg_string(const char *p)
{
    return arg_pointer(p, p ? (uint32_t)strnlen(p, 4096) : 0, NULL, 0);
}

/* Something fixed that is only read. */
static inline struct arg arg_input(const void *p, uint32_t size)
{
    return arg_pointer(p, size, NULL, 0);
}

/* Something fixed that is read and written. */
static inline struct arg arg_inout(void *p, uint32_t size)
{
    return arg_pointer(p, size, p, size);
}

/* A buffer that is only written. */
static inline struct arg arg_output(void *p, uint64_t capacity)
{
    return arg_pointer(NULL, 0, p, capacity);
}

/* An array that is read and written. */
static inline struct arg arg_array(void *p, uint64_t size)
{
    if (size >= UNBOUNDED)
        size = 0;
    return arg_pointer(p, (uint32_t)size, p, size);
}

/* The size that a struct gives whose first field is NVML_STRUCT_VERSION. */
static inline uint32_t claimed(const void *p)
{
    uint32_t version = 0;

    if (p != NULL)
        memcpy(&version, p, sizeof(version));
    version &= 0xffffff;
    return version < sizeof(version) ? sizeof(version) : version;
}

/* Such a struct, of which more versions exist than the declared one. */
static inline struct arg arg_versioned(void *p, uint32_t declared)
{
    uint32_t size = claimed(p);

    return arg_pointer(p, size < declared ? size : declared, p, size);
}

static inline struct arg arg_versioned_input(const void *p, uint32_t declared)
{
    uint32_t size = claimed(p);

    return arg_input(p, size < declared ? size : declared);
}

/* What *p holds, or 0. */
static inline uint64_t at(const void *p)
{
    uint32_t n = 0;

    if (p != NULL)
        memcpy(&n, p, sizeof(n));
    return n;
}

/* Whether a call may be sent again when its answer got lost. */
enum { CHANGES = 0, READS = 1 };

int forward(const char *name, int reads, const struct arg *args, int n);

#endif
