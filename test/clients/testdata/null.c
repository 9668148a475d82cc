/*
 * Calls every function that standard input names with nothing but zeros: null
 * pointers, null handles, counts of none. More arguments than a function has do
 * no harm in the calling conventions of Linux.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*any)(long, long, long, long, long, long, long, long);

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*init)(void);
    char name[256];

    if (library == NULL) {
        fprintf(stderr, "open: %s\n", dlerror());
        return 1;
    }
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    if (init == NULL || init() != 0) {
        fprintf(stderr, "nvmlInit_v2 failed\n");
        return 1;
    }
    while (fgets(name, sizeof(name), stdin) != NULL) {
        any call;

        name[strcspn(name, "\n")] = '\0';
        *(void **)&call = dlsym(library, name);
        if (call == NULL) {
            fprintf(stderr, "%s: %s\n", name, dlerror());
            return 1;
        }
        fprintf(stderr, "calling %s\n", name); /* the last line tells which one crashed */
        printf("%s %d\n", name, call(0, 0, 0, 0, 0, 0, 0, 0));
    }
    return 0;
}
