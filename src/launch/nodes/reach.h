/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_NODES_REACH_H
#define MST_LAUNCH_NODES_REACH_H

/* Whether the other nodes can reach a replica here, found out before it begins: one that votes and
 * cannot be reached would count against the majority. A node that would have a replica listens
 * where that will, and asks through keys of the job under "muster/run/":
 *
 *   reach/NODE            "ATTEMPT ADDRESS": by the node that asks; empty: it asks no more
 *   reached/NODE/SLOT     "ATTEMPT FROM ok", or "ATTEMPT FROM REASON": by node FROM, which has the
 *                         replica of that slot
 *
 * Each node with a replica connects to the address once. The node that asks connects to theirs, as
 * its ranks would. What is not answered in time counts as reached: it is no proof of a firewall. */

#include <uv.h>

#include "launch/session.h"
#include "net/address.h"

enum { MST_REACH_SLOTS = 5, MST_REACH_PROBES = 8, MST_REACH_REASON = 64 };

enum mst_reach_state { MST_REACH_WAITS = 0, MST_REACH_GOOD = 1, MST_REACH_BAD = 2 };

/* One connection that is tried. */
struct mst_reach_probe {
    bool busy;   /* until its answer is written */
    int fd;      /* -1: the result is there */
    bool is_own; /* to the replica of `slot`, for this node's question */
    unsigned slot;
    uint32_t node, attempt; /* of the question of another node */
    uint64_t until_ns;
    struct mst_note note; /* the answer */
};

struct mst_reach_answer {
    enum mst_reach_state state;
    char who[MST_ADDRESS_TEXT]; /* the address that was reached, or the number of the node */
    char reason[MST_REACH_REASON];
};

struct mst_reach {
    uv_timer_t timer; /* while something is under way */
    struct mst_reach_probe probes[MST_REACH_PROBES];
    bool asks;
    int listener; /* while it asks */
    uint32_t attempt;
    uint64_t until_ns;
    bool said;                                    /* why it is not reached, the last time */
    struct mst_note note;                         /* the question */
    struct mst_reach_answer own[MST_REACH_SLOTS]; /* to the replica of each slot */

    /* Written by the client's threads: under the run's lock. */
    struct mst_reach_answer theirs[MST_REACH_SLOTS]; /* from there to here */
    struct {
        uint32_t node, attempt;
        char address[MST_ADDRESS_TEXT]; /* empty: none */
    } questions[MST_REACH_PROBES];
};

struct mst_run_job;

void mst_reach_init(struct mst_run_job *job);
void mst_reach_begin(struct mst_run_job *job); /* the session is open */

/* With the client's lock held: a key of the run, without MST_SESSION_KEYS. */
void mst_reach_heard(struct mst_run_job *job, struct mst_slice name, struct mst_slice value);

/* On the loop: connects for the questions of others, if this node has a replica. */
void mst_reach_look(struct mst_run_job *job);

/* Begins to ask for replicas.address, or goes on; the loop calls mst_replicas_look when there is
 * news. BAD: after a line that says which node cannot reach what, unless that is so
 * since the last time. */
enum mst_reach_state mst_reach_check(struct mst_run_job *job);

#endif
