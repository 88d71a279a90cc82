/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_RING_H
#define CHARLM_RING_H

/* The ranks of one generation in a ring of plain TCP connections: each sends to the next rank and
 * receives from the one before. muster carries no tensor. It carries the addresses, and it
 * interrupts a rank that waits here for a peer that will not send because a third one died.
 *
 * Everything blocks, without time limits and without polling. When the job restarts, muster
 * interrupts the thread: recv or send returns EINTR. When the neighbour itself died, its socket
 * breaks, probably before the news of that is here: muster_restart_lost waits for it. Either way
 * the call returns EINTERRUPTED. A ring stays open after that until its owner knows that all
 * others have stopped using theirs, and then closes it. So a closing socket means that its process
 * died, never that a living peer has continued. */

#include <stddef.h>
#include <stdint.h>

#include <muster/muster.h>

enum ring_end { RING_NEXT, RING_PREVIOUS };

/* The system call that ended a ring. */
struct ring_failure {
    const char *call; /* "recv", "send", "accept", "connect"; NULL: none did */
    enum ring_end end;
    int os_errno; /* EINTR: muster interrupted it; 0: the peer closed its end */
};

struct ring {
    muster_restart *restart;
    uint32_t index[2]; /* of the neighbours, by ring_end */
    int fd[2];         /* the sockets to them, or -1 */
    struct ring_failure failure;
};

#define RING_CLOSED ((struct ring){.fd = {-1, -1}})

/* Connects this generation's ranks. EINTERRUPTED; EFAILED: reported; or the status of a muster
 * call. Close the ring also after a failure. */
muster_status ring_open(struct ring *ring, muster_client *client, muster_restart *restart,
                        struct muster_error *err);

/* Sends all these bytes to the next rank, or receives as many from the previous one.
 * EINTERRUPTED. */
muster_status ring_move(struct ring *ring, enum ring_end end, void *data, size_t size);

void ring_close(struct ring *ring);

#endif
