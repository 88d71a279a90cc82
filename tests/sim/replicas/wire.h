/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_REPLICAS_WIRE_H
#define SIM_REPLICAS_WIRE_H

/* Connections between any two hosts, with TCP's promises and no more: the bytes of one direction
 * arrive in order, each once, or not at all; a write is split anywhere; a full window makes the
 * writer wait. A path may be cut in one direction alone. Bytes on a cut path are retransmitted, and
 * when that failed for too long, the connection breaks for each end that is still there. The death
 * of a process is reported to the other end, that of a host is not. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define REP_HOSTS_MAX 12u

struct replicas;

/* A process that has connections: it is woken, and then looks at all of them. */
struct rep_actor {
    uint32_t host;
    bool alive, frozen;
    uint64_t life; /* grows with each process in this place */
    uint64_t wake_ns;
    void (*look)(struct replicas *replicas, struct rep_actor *actor);
};

enum rep_link_kind { REP_CLIENT, REP_PEER };
enum rep_attempt { REP_TRYING, REP_ACCEPTED, REP_REFUSED };

struct rep_piece {
    struct rep_piece *next;
    uint64_t arrive_ns;
    size_t size;
    bool fin;
    unsigned char bytes[];
};

struct rep_end {
    struct rep_actor *owner;        /* NULL: nobody has it open */
    bool over;                      /* nothing more comes, and nothing more can be written */
    struct rep_piece *first, *last; /* on their way to it */
    size_t flying;
    uint64_t last_arrive_ns;
    unsigned char *got;
    size_t got_size, got_room;
};

struct rep_link {
    uint64_t id;
    enum rep_link_kind kind;
    enum rep_attempt attempt;
    bool seen;                /* by the side that was connected to */
    struct rep_actor *target; /* of the attempt, which may be another process by then */
    uint64_t target_life, since_ns;
    uint64_t stuck_ns;      /* since when something waits on a cut path; 0: nothing does */
    struct rep_end ends[2]; /* of the side that connected, and of the other one */
    uint32_t hosts[2];
    void *user[2]; /* what each side keeps of it */
};

struct rep_wire {
    struct rep_link **links;
    uint32_t count, room;
    uint32_t first_live;
    /* Until when nothing passes from one host to another; 0: it passes. */
    uint64_t cut_ns[REP_HOSTS_MAX][REP_HOSTS_MAX];
    bool down[REP_HOSTS_MAX]; /* the host is dead */
};

bool rep_wire_passes(const struct replicas *replicas, uint32_t from, uint32_t to);

void rep_wake(struct replicas *replicas, struct rep_actor *actor, uint64_t at_ns);

/* `target` NULL: no process listens there. The attempt is decided after a round trip. */
struct rep_link *rep_link_open(struct replicas *replicas, struct rep_actor *from,
                               struct rep_actor *target, uint32_t host, enum rep_link_kind kind);

size_t rep_link_write(struct replicas *replicas, struct rep_link *link, unsigned side,
                      struct mst_slice bytes);
struct mst_slice rep_link_got(const struct rep_link *link, unsigned side);
void rep_link_take(struct replicas *replicas, struct rep_link *link, unsigned side, size_t size);
void rep_link_close(struct replicas *replicas, struct rep_link *link, unsigned side);

/* Something between the two drops the connection. */
void rep_link_break(struct replicas *replicas, struct rep_link *link);

/* The process is dead: its connections are closed by its kernel, unless the host died too. */
void rep_wire_death(struct replicas *replicas, struct rep_actor *actor, bool with_host);

void rep_wire_fini(struct replicas *replicas);

#endif
