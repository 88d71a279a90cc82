/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_RING_H
#define CHARLM_RING_H

/* The ranks of one generation in a ring of plain TCP connections: each sends to the next rank and
 * receives from the one before. muster carries no tensor; it carries the addresses, and it frees
 * who waits here for a peer that will not send because a third one died.
 *
 * Everything blocks, without time limits and without polling. When the job restarts, muster
 * interrupts the thread: recv or send returns EINTR, and the function returns EINTERRUPTED.
 *
 * A ring stays open after that until its owner knows that all others have stopped using theirs, and
 * then closes it: a socket that closes says that its process died, and never that a living peer has
 * merely gone on. */

#include <stddef.h>
#include <stdint.h>

#include <muster/muster.h>

/* How a ring came to stop. */
enum ring_end {
    RING_GOES_ON = 0,
    RING_CUT_SHORT, /* muster interrupted a blocking call */
    RING_PEER_GONE  /* a neighbour's socket failed */
};

struct ring {
    muster_restart *restart;
    uint32_t rank, size;
    uint32_t next_index, previous_index; /* who the neighbours are */
    int to_next, from_previous;          /* sockets, or -1 */
    enum ring_end end;
    const char *call;    /* the call that ended it: "recv", "send", "accept", "connect" */
    uint32_t peer_index; /* whom it was for */
    int os_errno;        /* what it failed with; 0: the peer's end was closed */
};

void ring_init(struct ring *ring);

/* Connects this generation's ranks. EINTERRUPTED; ELOST: a neighbour is gone (see `end`); or what a
 * muster call returned. The ring is to be closed also when this failed. */
muster_status ring_open(struct ring *ring, muster_client *client, muster_restart *restart,
                        struct muster_error *err);
void ring_close(struct ring *ring);

/* total[i] = ((mine of rank 0, in order) + mine of rank 1) + ..., one addition after the other in
 * this order: the same bits however the parts are spread over the ranks. All ranks get it.
 * EINTERRUPTED, ELOST. */
muster_status ring_sum(struct ring *ring, float *total, size_t count, const float *const *mine,
                       size_t mine_count);

/* Everyone's `data` becomes that of rank `root`. EINTERRUPTED, ELOST. */
muster_status ring_share(struct ring *ring, uint32_t root, void *data, size_t size);

#endif
