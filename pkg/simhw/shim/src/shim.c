#define _GNU_SOURCE
#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * One connection serves one call at a time; those that nobody uses wait here. So
 * a thread that waits long for its answer holds up no other thread.
 */
#define POOL_SIZE 32
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int pool[POOL_SIZE];
static int pooled;
static pid_t owner;
static int initialized;

/* A growing buffer; out of memory shows as failed. */
struct buffer {
    char *bytes;
    size_t len, cap;
    bool failed;
};

static void put(struct buffer *b, const void *bytes, size_t len)
{
    if (b->len + len > b->cap) {
        size_t cap = (b->len + len) * 2;
        char *grown = b->failed ? NULL : realloc(b->bytes, cap);

        if (grown == NULL) {
            b->failed = true;
            return;
        }
        b->bytes = grown;
        b->cap = cap;
    }
    if (len > 0)
        memcpy(b->bytes + b->len, bytes, len);
    b->len += len;
}

static void put8(struct buffer *b, uint8_t v) { put(b, &v, sizeof(v)); }
static void put32(struct buffer *b, uint32_t v) { put(b, &v, sizeof(v)); }

static bool write_all(int fd, const void *bytes, size_t len)
{
    const char *p = bytes;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *bytes, size_t len)
{
    char *p = bytes;

    while (len > 0) {
        ssize_t n = recv(fd, p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* Cuts the library's directory off its path, which leaves the driver root. */
static bool strip(char *path)
{
    static const char *const dirs[] = {
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
        "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib",
    };
    char *slash = strrchr(path, '/');

    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        size_t len = strlen(path), suffix = strlen(dirs[i]);
        if (len >= suffix && strcmp(path + len - suffix, dirs[i]) == 0) {
            path[len - suffix] = '\0';
            return true;
        }
    }
    return false;
}

/*
 * The driver root is where this library lies: "" for /usr/lib/x86_64-linux-gnu.
 * The path by which it was loaded comes first, since a link may lead out of the
 * root; only a path that says nothing (a relative one, say) is resolved.
 */
static bool find_root(char root[PATH_MAX])
{
    Dl_info info;

    if (dladdr((void *)find_root, &info) == 0 || info.dli_fname == NULL)
        return false;
    if (info.dli_fname[0] == '/' && strlen(info.dli_fname) < PATH_MAX) {
        strcpy(root, info.dli_fname);
        if (strip(root))
            return true;
    }
    return realpath(info.dli_fname, root) != NULL && strip(root);
}

/* Lists the character devices of a directory, one line each. */
static void list_devices(struct buffer *b, const char *kind, const char *root, const char *dir)
{
    char path[PATH_MAX + NAME_MAX];
    struct dirent *entry;
    DIR *d;

    snprintf(path, sizeof(path), "%s%s", root, dir);
    d = opendir(path);
    if (d == NULL)
        return;
    while ((entry = readdir(d)) != NULL) {
        char line[NAME_MAX + 64];
        struct stat st;

        if (strncmp(entry->d_name, "nvidia", strlen("nvidia")) != 0)
            continue;
        if (fstatat(dirfd(d), entry->d_name, &st, 0) != 0 || !S_ISCHR(st.st_mode))
            continue;
        snprintf(line, sizeof(line), "%s %s %u %u\n", kind, entry->d_name, major(st.st_rdev), minor(st.st_rdev));
        put(b, line, strlen(line));
    }
    closedir(d);
}

/* No daemon's answer: the connection ended before there was one. */
#define CUT_OFF (-1)

/* Says which device nodes this process can see; the answer is a return code or CUT_OFF. */
static int greet(int fd, const char *root)
{
    struct timeval patience = {.tv_sec = 30}, forever = {0};
    struct buffer text = {0}, b = {0};
    int32_t code = NVML_ERROR_DRIVER_NOT_LOADED;
    bool ok;

    list_devices(&text, "dev", root, "/dev");
    list_devices(&text, "cap", root, "/dev/nvidia-caps");
    put(&b, "CLEAVE1\n", 8);
    put32(&b, (uint32_t)text.len);
    put(&b, text.bytes, text.len);
    ok = !text.failed && !b.failed;
    free(text.bytes);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    errno = 0; /* also what the end of a connection leaves */
    if (ok && !(write_all(fd, b.bytes, b.len) && read_all(fd, &code, sizeof(code))))
        code = errno == EAGAIN ? NVML_ERROR_DRIVER_NOT_LOADED : CUT_OFF;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
    free(b.bytes);
    return code;
}

/* Opens a connection; returns a return code or CUT_OFF and, with success, the socket. */
static int dial_once(int *out)
{
    /* /var/run is not a link everywhere, and CDI carries either. */
    static const char *const sockets[] = {"/run/nvidia-persistenced/socket", "/var/run/nvidia-persistenced/socket"};
    char root[PATH_MAX];

    if (!find_root(root))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        int fd, code;

        if (strlen(root) + strlen(sockets[i]) >= sizeof(addr.sun_path))
            continue;
        strcpy(addr.sun_path, root);
        strcat(addr.sun_path, sockets[i]);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return NVML_ERROR_DRIVER_NOT_LOADED;
        while ((code = connect(fd, (struct sockaddr *)&addr, sizeof(addr))) != 0 && errno == EINTR)
            ;
        if (code == 0 || errno == EISCONN) {
            code = greet(fd, root);
            if (code == NVML_SUCCESS)
                *out = fd;
            else
                close(fd);
            return code;
        }
        close(fd);
    }
    return NVML_ERROR_DRIVER_NOT_LOADED;
}

/*
 * A daemon that dies while it greets has been asked nothing, so one may ask the next.
 * The bound is for one that always dies.
 */
static int dial(int *out)
{
    int code = CUT_OFF;

    for (int tries = 0; tries < 10 && code == CUT_OFF; tries++)
        code = dial_once(out);
    return code == CUT_OFF ? NVML_ERROR_DRIVER_NOT_LOADED : code;
}

/* Nothing may come unasked, so whatever poll reports means the end. */
static bool alive(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 0;
}

/* After a fork the sockets are the parent's. The lock is held. */
static void forget_after_fork(void)
{
    if (owner == getpid())
        return;
    while (pooled > 0)
        close(pool[--pooled]);
    owner = getpid();
}

static int take(int *out)
{
    int fd = -1;

    pthread_mutex_lock(&lock);
    forget_after_fork();
    while (fd < 0 && pooled > 0) {
        fd = pool[--pooled];
        if (!alive(fd)) {
            close(fd);
            fd = -1;
        }
    }
    pthread_mutex_unlock(&lock);
    if (fd < 0)
        return dial(out);
    *out = fd;
    return NVML_SUCCESS;
}

static void give(int fd)
{
    pthread_mutex_lock(&lock);
    forget_after_fork();
    if (initialized > 0 && pooled < POOL_SIZE) {
        pool[pooled++] = fd;
        fd = -1;
    }
    pthread_mutex_unlock(&lock);
    if (fd >= 0)
        close(fd);
}

/* Writes what the answer says; false if the answer makes no sense. */
static bool apply(const char *p, size_t len, const struct arg *args, int n, int32_t *code)
{
    uint8_t outputs, index;
    uint32_t size;

    if (len < sizeof(*code) + 1)
        return false;
    memcpy(code, p, sizeof(*code));
    outputs = (uint8_t)p[sizeof(*code)];
    p += sizeof(*code) + 1;
    len -= sizeof(*code) + 1;
    for (; outputs > 0; outputs--) {
        if (len < 1 + sizeof(size))
            return false;
        index = (uint8_t)*p;
        memcpy(&size, p + 1, sizeof(size));
        p += 1 + sizeof(size);
        len -= 1 + sizeof(size);
        if (index >= n || args[index].out == NULL || size > args[index].capacity || size > len)
            return false;
        memcpy(args[index].out, p, size);
        p += size;
        len -= size;
    }
    return len == 0;
}

static bool exchange(int fd, const struct buffer *request, const struct arg *args, int n, int32_t *code)
{
    uint32_t len;
    char *answer;
    bool ok;

    if (!write_all(fd, request->bytes, request->len) || !read_all(fd, &len, sizeof(len)) || len > (64U << 20))
        return false;
    answer = malloc(len);
    ok = answer != NULL && read_all(fd, answer, len) && apply(answer, len, args, n, code);
    free(answer);
    return ok;
}

static void encode(struct buffer *b, const char *name, const struct arg *args, int n)
{
    uint32_t len = (uint32_t)(2 + strlen(name));

    for (int i = 0; i < n; i++)
        len += 9 + args[i].in_len;
    put32(b, len);
    put8(b, (uint8_t)strlen(name));
    put(b, name, strlen(name));
    put8(b, (uint8_t)n);
    for (int i = 0; i < n; i++) {
        put8(b, args[i].kind);
        put32(b, args[i].in_len);
        put32(b, args[i].capacity);
        put(b, args[i].in, args[i].in_len);
    }
}

static bool is_initialized(void)
{
    bool yes;

    pthread_mutex_lock(&lock);
    yes = initialized > 0;
    pthread_mutex_unlock(&lock);
    return yes;
}

int forward(const char *name, int reads, const struct arg *args, int n)
{
    struct buffer request = {0};
    int code = NVML_ERROR_UNKNOWN;

    if (!is_initialized())
        return NVML_ERROR_UNINITIALIZED;
    encode(&request, name, args, n);
    /* Whether a lost change was made is not known, so only reads go out again. */
    for (int tries = reads ? 5 : 1; tries > 0 && !request.failed; tries--) {
        int32_t answer;
        int fd;

        code = take(&fd);
        if (code != NVML_SUCCESS)
            break;
        if (exchange(fd, &request, args, n, &answer)) {
            give(fd);
            code = answer;
            break;
        }
        close(fd);
        code = NVML_ERROR_UNKNOWN;
    }
    free(request.bytes);
    return code;
}

API int nvmlInitWithFlags(unsigned int flags)
{
    int fd, code;

    (void)flags; /* both only say what else would be an error */
    code = take(&fd);
    if (code != NVML_SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    initialized++;
    pthread_mutex_unlock(&lock);
    give(fd);
    return NVML_SUCCESS;
}

API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

API int nvmlInit(void) { return nvmlInitWithFlags(0); }

API int nvmlShutdown(void)
{
    int code = NVML_ERROR_UNINITIALIZED;

    pthread_mutex_lock(&lock);
    forget_after_fork();
    if (initialized > 0) {
        code = NVML_SUCCESS;
        initialized--;
    }
    while (initialized == 0 && pooled > 0)
        close(pool[--pooled]);
    pthread_mutex_unlock(&lock);
    return code;
}

API const char *nvmlErrorString(int code)
{
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
        "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
        "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
        "The operating system has blocked the request", "RM has detected an NVML/RM version mismatch",
        "In use by another client", "Insufficient Memory", "No data", "ECC is enabled on the GPU",
        "Insufficient Resources", "Frequency not supported", "Argument version mismatch", "Deprecated",
        "Not ready", "GPU not found", "Invalid state",
    };

    if (code >= 0 && (size_t)code < sizeof(texts) / sizeof(texts[0]))
        return texts[code];
    return "Unknown Error";
}
