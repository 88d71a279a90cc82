/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_RING_H
#define CHARLM_RING_H

/* The ranks of one generation in a ring of plain TCP connections: each sends to the next rank and
 * receives from the one before. muster carries no tensor. It carries the addresses, and it
 * interrupts a rank that waits here for a peer that will not send because a third one died.
 *
 * Everything blocks, without time limits and without polling. When the job restarts, muster
 * interrupts the thread: recv or send returns EINTR, and the function returns EINTERRUPTED. A ring
 * stays open after that until its owner knows that all others have stopped using theirs, and then
 * closes it. So a closing socket means that its process died, never that a living peer has
 * continued. */

#include <stddef.h>
#include <stdint.h>

#include <muster/muster.h>

/* The end of a ring. */
enum ring_end {
    RING_GOES_ON = 0,
    RING_CUT_SHORT, /* muster interrupted a blocking call */
    RING_PEER_GONE  /* a neighbour's socket failed */
};

struct ring {
    muster_restart *restart;
    uint32_t rank, size;
    uint32_t next_index, previous_index; /* to know the neighbours */
    int to_next, from_previous;          /* sockets, or -1 */
    enum ring_end end;
    const char *call;    /* the call that ended it: "recv", "send", "accept", "connect" */
    uint32_t peer_index; /* the peer of that call */
    int os_errno;        /* its error; 0: the peer closed its end */
};

void ring_init(struct ring *ring);

/* Connects this generation's ranks. EINTERRUPTED; ELOST: a neighbour is gone (see `end`); or the
 * status of a muster call. Close the ring also after a failure. */
muster_status ring_open(struct ring *ring, muster_client *client, muster_restart *restart,
                        struct muster_error *err);
void ring_close(struct ring *ring);

/* total[i] = ((mine of rank 0, in order) + mine of rank 1) + ..., one addition after the other in
 * this order: the same bits for any distribution of the parts over the ranks. All ranks get it.
 * EINTERRUPTED, ELOST. */
muster_status ring_sum(struct ring *ring, float *total, size_t count, const float *const *mine,
                       size_t mine_count);

/* Copies `data` of rank `root` to all ranks. EINTERRUPTED, ELOST. */
muster_status ring_share(struct ring *ring, uint32_t root, void *data, size_t size);

#endif
