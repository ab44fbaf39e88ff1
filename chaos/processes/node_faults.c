/* Damages the disk and the clock of one process: preloaded, and told by a file what to do.
 *
 * CHAOS_FAULTS names the file, CHAOS_DATA the folder whose files are on the damaged disk. The file
 * has three numbers of four bytes: the mode of the disk, the milliseconds of a slow fsync, and the
 * seconds by which the time of day is shifted. It is mapped into memory, so that a healthy node pays
 * one look at it. The monotonic clock stays as it is. Programs that do not call the C library (Go)
 * are not reached; Python and Java are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { HEALTHY, SLOW, FULL, FAILING };

static volatile uint32_t *control;
static const char *folder;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_FAULTS");
    folder = getenv("CHAOS_DATA");
    if (!path || !folder) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, 12, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) control = at;
    close(fd);
}

static uint32_t mode_of(int fd) {
    char link[64], path[4096];
    if (!control || control[0] == HEALTHY) return HEALTHY;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return HEALTHY;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) ? HEALTHY : control[0];
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define SYNC(name) \
    int name(int fd) { \
        REAL(name); \
        uint32_t mode = mode_of(fd); \
        if (mode == FAILING) { errno = EIO; return -1; } \
        if (mode == SLOW) { \
            struct timespec wait = {control[1] / 1000, control[1] % 1000 * 1000000L}; \
            nanosleep(&wait, NULL); \
        } \
        return real(fd); \
    }

#define WRITE(name, parameters, arguments) \
    ssize_t name parameters { \
        REAL(name); \
        if (mode_of(fd) == FULL) { errno = ENOSPC; return -1; } \
        return real arguments; \
    }

SYNC(fsync)
SYNC(fdatasync)
WRITE(write, (int fd, const void *data, size_t size), (fd, data, size))
WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
WRITE(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITE(pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRITE(pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))

static int32_t shift(void) {
    return control ? (int32_t)control[2] : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += shift();
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    REAL(gettimeofday);
    int failed = real(now, zone);
    if (!failed) now->tv_sec += shift();
    return failed;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
