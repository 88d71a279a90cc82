/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/own_pid.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

typedef _Atomic pid_t cell;

/* In memory that the kernel clears in a child, however that was forked: a handler of pthread_atfork
 * would not see _Fork and clone. NULL: the kernel cannot (before 4.14). */
static cell *kept;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_cell(void)
{
    void *page =
        mmap(NULL, sizeof(cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return;
    }
    if (madvise(page, sizeof(cell), MADV_WIPEONFORK) == 0) {
        kept = page;
    } else {
        (void)munmap(page, sizeof(cell));
    }
}

pid_t mst_own_pid(void)
{
    pid_t pid;

    (void)pthread_once(&once, make_cell);
    if (!kept) {
        return getpid();
    }
    pid = atomic_load_explicit(kept, memory_order_relaxed);
    if (pid == 0) {
        pid = getpid();
        atomic_store_explicit(kept, pid, memory_order_relaxed);
    }
    return pid;
}
