/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_IO_PAGE_H
#define MST_IO_PAGE_H

/* The progress page: a few words of memory shared by one rank process and its agent, and nobody
 * else. The agent makes one for each process it starts; its descriptor's number reaches the process
 * in MUSTER_PAGE_FD.
 *
 * The process says in it how far it is, with plain atomic stores that cost nanoseconds. And it
 * holds `alive`, a robust mutex: the kernel releases that when the holding thread ends, before the
 * memory of the process is torn down, which for a large process is seconds earlier than a closed
 * socket or a readable pidfd (io/death.h waits for it). */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

struct mst_page {
    uint32_t version;
    uint32_t size; /* of this structure, as the one who made the page knew it */
    pthread_mutex_t alive;
    /* Written by the rank, read by the agent; relaxed. */
    _Atomic uint64_t pid;        /* of the process that holds or last held `alive` */
    _Atomic uint64_t pings;      /* calls of muster_restart_ping */
    _Atomic uint64_t entered;    /* times the wrapped function was entered */
    _Atomic uint64_t generation; /* the last one it was sealed into */
};

#define MST_PAGE_VERSION 1u

/* The agent: a new page and its descriptor, close-on-exec, both owned by the caller. EFAILED with
 * errno set when the system gives none. */
muster_status mst_page_create(struct mst_page **out, int *fd_out);

/* The rank: maps the page behind `fd`, which stays open and the caller's. EINVAL when this is no
 * page of ours: then there is no agent, and all goes on without one. */
muster_status mst_page_map(struct mst_page **out, int fd);

void mst_page_unmap(struct mst_page *page); /* NULL: no-op */

/* From now on the death of the calling thread is known to the agent at once. False, and nothing
 * changed, when another process or thread holds the page (the parent of a forked child does) or
 * the one that held it died: such a page belongs to a process that was given up. */
bool mst_page_hold(struct mst_page *page);

/* Called by the thread that holds it: its end is no death any more. */
void mst_page_release(struct mst_page *page);

/* Whether somebody holds the page, or died holding it. */
bool mst_page_held(const struct mst_page *page);
bool mst_page_died(const struct mst_page *page);

/* The futex word of `alive`: the holder's thread id and the kernel's two bits. */
_Atomic uint32_t *mst_page_word(struct mst_page *page);

#endif
