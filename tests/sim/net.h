/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NET_H
#define SIM_NET_H

/* A network with TCP's promises and no more: bytes of one direction of one connection arrive in
 * order, each once, or not at all; nothing is promised between connections. They are split
 * anywhere, late, held up, or cut off at any byte; one end may be gone while the other believes in
 * it until it writes; and who does not read makes the other end's writes wait. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "proto/native/native.h"
#include "proto/request.h"

struct sim;
struct sim_proc;

enum sim_side { SIM_CLIENT = 0, SIM_SERVICE = 1 };

struct sim_segment {
    struct sim_segment *next;
    uint64_t arrive_ns;
    size_t size;
    bool fin, reset;
    unsigned char bytes[];
};

/* One end of a connection: what is on its way to it, and what its kernel holds for it. */
struct sim_end {
    bool open; /* its owner has a descriptor */
    bool gone; /* its kernel knows nothing of it (any more): bytes for it are answered by a reset */
    bool ended;   /* after what was received there is nothing more to come */
    bool broken;  /* by a reset */
    bool pinched; /* the other end has more to write than fits */
    struct sim_segment *first, *last;
    size_t flying;
    uint64_t last_arrive_ns;
    unsigned char *received;
    size_t received_start, received_end, received_room;
};

enum sim_attempt { SIM_TRYING = 0, SIM_ACCEPTED, SIM_REFUSED };

/* Command of each request of this connection that has no answer yet. */
struct sim_asked {
    uint64_t id;
    enum mst_command command;
    /* ROUND: which, and whether this request is what made its rank arrive */
    uint64_t generation, number;
    uint32_t name;
    bool arrives;
    bool fenced;                     /* RENEW: it had been given up */
    const struct sim_proc *claimant; /* RENEW: who claimed its place then */
};

#define SIM_ASKED_MAX 160u

struct sim_conn {
    struct mst_conn id;
    struct sim_proc *proc;
    enum sim_attempt attempt;
    uint64_t held_until_ns; /* nothing passes before */
    bool severed;           /* nothing passes any more; who writes is answered by a reset */
    struct sim_end end[2];
    struct mst_native_service *codec;       /* the service's */
    struct mst_native_client *client_codec; /* the client's */
    bool admitted;                          /* the core knows it */
    bool elsewhere;                         /* it leads to what does not serve */
    bool orphaned;                          /* it did when it died */
    struct sim_asked asked[SIM_ASKED_MAX];
    uint32_t asked_count;
};

struct sim_net {
    struct sim_conn **conns;
    size_t count, room;
    size_t first_live; /* those before are gone on both ends */
};

void sim_net_fini(struct sim *sim);

/* An attempt: some time later it is accepted or refused, and the process is woken. */
struct sim_conn *sim_net_connect(struct sim *sim, struct sim_proc *proc, bool nobody_there);

/* As much as fits; less makes the writer wait, and it is woken when there is room again. */
size_t sim_net_write(struct sim *sim, struct sim_conn *conn, enum sim_side from,
                     struct mst_slice bytes);

struct mst_slice sim_net_received(const struct sim_conn *conn, enum sim_side side);
void sim_net_take(struct sim *sim, struct sim_conn *conn, enum sim_side side, size_t size);

/* Nothing more will come: the end was closed over there, or reset. */
bool sim_net_over(const struct sim_conn *conn, enum sim_side side);

void sim_net_close(struct sim *sim, struct sim_conn *conn, enum sim_side side);

/* The host of this side is gone without a word. */
void sim_net_vanish(struct sim_conn *conn, enum sim_side side);

/* Something between the two drops the connection. Bytes under way are lost from a random one on.
 * `told` is a mask of the sides that learn of it now; the others when they write. */
void sim_net_cut(struct sim *sim, struct sim_conn *conn, unsigned told);

void sim_net_hold(struct sim *sim, struct sim_conn *conn, uint64_t until_ns);

/* The path between a node and the service is open again: what waited goes on. */
void sim_net_resume(struct sim *sim);

/* A connection of which at least one end is open. */
struct sim_conn *sim_net_pick(struct sim *sim);

#endif
