/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum pinning pinning = PIN_NONE;
static const char *const pinning_name[] = {"none", "split", "same"};

_Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pause_us(unsigned us)
{
    const uint64_t end = now_ns() + (uint64_t)us * 1000;
    for (uint64_t now = now_ns(); now < end; now = now_ns()) {
        struct timespec left = {(time_t)((end - now) / 1000000000u),
                                (long)((end - now) % 1000000000u)};
        ppoll(NULL, 0, &left, NULL);
    }
}

bool parse_number(const char *text, long *out)
{
    char *end = NULL;
    if (text == NULL) {
        return false;
    }
    errno = 0;
    *out = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out >= 0;
}

bool pinning_set(const char *name)
{
    for (int i = PIN_NONE; i <= PIN_SAME; i++) {
        if (strcmp(name, pinning_name[i]) == 0) {
            pinning = (enum pinning)i;
            return true;
        }
    }
    return false;
}

void pin(bool child)
{
    cpu_set_t set;
    if (pinning == PIN_NONE) {
        return;
    }
    CPU_ZERO(&set);
    CPU_SET(pinning == PIN_SPLIT && child ? 1 : 0, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        die("sched_setaffinity");
    }
}

void all_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void *shared_memory(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        die("mmap");
    }
    return memory;
}

void *shared_file(const char *path, int flags, size_t size)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ((flags & O_CREAT) != 0 && ftruncate(fd, (off_t)size) != 0)) {
        die(path);
    }
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        die("mmap");
    }
    close(fd);
    return memory;
}

void *resident_memory(long mib)
{
    const size_t size = (size_t)mib << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        die("mmap");
    }
    /* Small pages, as most programs have: they are what takes so long to tear down. */
    madvise(memory, size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += 4096) {
        memory[at] = 1;
    }
    return memory;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

void report(const char *name, uint64_t *sample_ns, size_t count)
{
    qsort(sample_ns, count, sizeof *sample_ns, by_value);
    const size_t p50 = count / 2;
    const size_t p90 = count * 9 / 10;
    const size_t p99 = count * 99 / 100;
    printf("{\"name\":\"%s\",\"pin\":\"%s\",\"n\":%zu,\"p50_us\":%.3f,\"p90_us\":%.3f,"
           "\"p99_us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f}\n",
           name, pinning_name[pinning], count, (double)sample_ns[p50] / 1e3,
           (double)sample_ns[p90] / 1e3, (double)sample_ns[p99] / 1e3, (double)sample_ns[0] / 1e3,
           (double)sample_ns[count - 1] / 1e3);
    (void)fflush(stdout);
}

bool read_full(int fd, void *data, size_t size)
{
    for (size_t have = 0; have < size;) {
        ssize_t got = read(fd, (char *)data + have, size - have);
        if (got <= 0) {
            return false;
        }
        have += (size_t)got;
    }
    return true;
}

bool write_full(int fd, const void *data, size_t size)
{
    return write(fd, data, size) == (ssize_t)size;
}
