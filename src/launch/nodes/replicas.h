/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_NODES_REPLICAS_H
#define MST_LAUNCH_NODES_REPLICAS_H

/* Which nodes of a run have a replica of its service. There are `replicas` slots, keys of the job
 * that agents own, each with the address of a replica:
 *
 *   muster/run/replica/0   node 0's, which begins alone
 *   muster/run/replica/I   of the first agent that claims it; its node starts a replica then
 *
 * The nodes with the first numbers claim them at once, and the others after a while. A slot whose
 * agent is lost is free again, and another node claims it. Nothing else decides: the
 * leader makes voters of the replicas that are connected to it. A replica that ends is started
 * again with its log; the log goes with the run. */

#include <stdbool.h>

#include "launch/session.h"
#include "net/address.h"

enum { MST_REPLICAS_MAX = 5 };

struct mst_replicas {
    char address[MST_ADDRESS_TEXT]; /* of this node's; empty: it has none */
    struct mst_note claim;
    struct mst_note place; /* for those who look at the run: which node has which address */
    unsigned slot;         /* that is claimed, or this node's */
    uint64_t begun_ns;
    uint64_t again_ns; /* it is not reached, and tries again then */
    bool asks;         /* the claim is under way */
    bool owns;         /* the slot is this node's */
    bool cannot;       /* no other node could reach a replica here */
    bool complete;     /* all slots were taken once... */
    bool replaces;     /* ...so this node takes the place of another */
    bool said;         /* the line for further nodes, with the addresses that there are */
    char known[MST_ADDRESSES_TEXT]; /* what ranks and commands of this node were told last */

    /* Written by the client's threads: under the run's lock. */
    char slots[MST_REPLICAS_MAX][MST_ADDRESS_TEXT]; /* empty: free */
    bool taken[MST_REPLICAS_MAX];                   /* by another; its key is on its way */
};

struct mst_run_job;

/* Whether the service of the run is to have several. */
bool mst_replicas_wanted(const struct mst_run_job *job);

/* Node 0, before its service starts: it begins as a replica that is alone. */
void mst_replicas_first(struct mst_run_job *job);

/* The session is open. */
void mst_replicas_begin(struct mst_run_job *job);

/* With the client's lock held: a key of the run, without MST_SESSION_KEYS. `value` NULL: it is
 * deleted. */
void mst_replicas_heard(struct mst_run_job *job, struct mst_slice name,
                        const struct mst_slice *value);
void mst_replicas_reset(struct mst_run_job *job); /* likewise; all that there is comes again */

/* On the loop, whenever something was heard: claims a free slot, starts a replica. */
void mst_replicas_look(struct mst_run_job *job);

/* The addresses of all replicas, this node's last; with commas. */
void mst_replicas_list(struct mst_run_job *job, char *list, size_t room);

#endif
