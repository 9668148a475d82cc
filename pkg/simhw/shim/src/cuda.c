/*
 * A libcuda.so.1 that only exists: container tools look for it to find where a
 * driver's libraries lie. There is nothing here that could run a kernel.
 */
__attribute__((visibility("default"))) int cuInit(unsigned int flags)
{
    (void)flags;
    return 999; /* CUDA_ERROR_UNKNOWN (cuda.h) */
}
