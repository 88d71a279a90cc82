/* SPDX-License-Identifier: Apache-2.0 */

/* Loaded before a program: from allocation FAIL_ALLOC on, so many in a row (FAIL_ALLOC_COUNT, 1)
 * find no memory: of the program, of its libraries and of the C library. At the end it says on
 * stderr how many there were. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *real_malloc(size_t size) __asm__("__libc_malloc");
extern void *real_calloc(size_t count, size_t size) __asm__("__libc_calloc");
extern void *real_realloc(void *p, size_t size) __asm__("__libc_realloc");

static atomic_uint_fast64_t counted;
static uint64_t fail_from, fail_to;
static bool loaded;

__attribute__((visibility("default"))) void *malloc(size_t size);
__attribute__((visibility("default"))) void *calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *realloc(void *p, size_t size);

__attribute__((constructor)) static void load(void)
{
    const char *from = getenv("FAIL_ALLOC");
    const char *count = getenv("FAIL_ALLOC_COUNT");

    fail_from = from ? strtoull(from, NULL, 10) : 0;
    fail_to = fail_from + (count ? strtoull(count, NULL, 10) : 1);
    loaded = true;
}

__attribute__((destructor)) static void tell(void)
{
    char line[64];
    int size = snprintf(line, sizeof line, "allocations: %llu\n",
                        (unsigned long long)atomic_load(&counted));

    (void)!write(STDERR_FILENO, line, (size_t)size);
}

static bool fails(void)
{
    uint64_t number;

    if (!loaded) {
        return false;
    }
    number = atomic_fetch_add(&counted, 1) + 1;
    if (fail_from == 0 || number < fail_from || number >= fail_to) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : real_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : real_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    return fails() ? NULL : real_realloc(p, size);
}
