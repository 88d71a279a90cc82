/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_AGENT_WAITS_H
#define MST_AGENT_WAITS_H

/* Whether all ranks of a generation wait in muster, where several agents watch them.
 *
 * An agent whose ranks have all waited for their soft timeout writes that under a key of the
 * generation, four times in each such time for as long as it holds. The agent of rank 0 reads these
 * keys as often: those that are younger than half a soft timeout make up all ranks, three times in
 * a row. Then there was a time in which all of them waited, and none could end another one's wait.
 * No clock is shared: the service tells how old each key is. */

#include "agent/monitor.h"
#include "lib/internal.h"

#define MST_WAITS_GROUPS 4u

/* Ranks that wait for the same. */
struct mst_waits_group {
    char what[64], ranks[64];
    uint32_t count;
    bool several; /* agents told of them: `ranks` is not all of them */
};

struct mst_waits {
    muster_client *client;
    struct mst_lib_post put, list;
    uint64_t generation;
    int64_t soft_ms;
    uint32_t ranks;
    uint64_t next_ns; /* when to write and read again */
    uint64_t full_ns; /* when they were all of them */
    unsigned in_a_row;

    /* Of the reading that is under way. */
    uint64_t sum;
    char after[96];
    struct mst_waits_group groups[MST_WAITS_GROUPS];
    unsigned group_count;
    bool more; /* groups than there is room for */
};

/* With the client's lock held, at each look in which all ranks that the monitor watches in the
 * generation of `one` wait. True: so do all others; `text` says for what: "ranks 0, 1 wait in
 * barrier 'a', rank 2 waits in barrier 'b'". */
bool mst_waits_look(struct mst_waits *waits, muster_client *client,
                    const struct mst_monitor *monitor, const struct mst_watched *one,
                    uint64_t now_ns, char *text, size_t room);

#endif
