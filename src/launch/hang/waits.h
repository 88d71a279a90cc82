/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_WAITS_H
#define MST_LAUNCH_HANG_WAITS_H

/* Whether all ranks of a generation wait in muster, where several agents watch them.
 *
 * An agent whose ranks have all waited for their soft timeout writes that under a key of the
 * generation, four times in each such time for as long as it holds. The agent of rank 0 reads these
 * keys as often: those that are younger than half a soft timeout make up all ranks, three times in
 * a row. Then there was a time in which all of them waited, and none could end another one's wait.
 * No clock is shared: the service tells how old each key is.
 *
 * One rank of the job may be silent instead: it never called muster in this attempt, and so has no
 * clock. Then all others wait for it, if one of them does so in a call.
 *
 * A value is text, a line for each group of ranks that wait for the same:
 *
 *   COUNT <tab> RANKS <tab> WHAT     "2\tranks 0, 1\tin barrier 'a'"
 *   silent <tab> RANK                "silent\trank 2"; a reader that does not know it counts no
 * rank
 */

#include "client/shell/internal.h"
#include "launch/hang/monitor.h"

#define MST_WAITS_GROUPS 4u
#define MST_WAITS_RETURNED "for the end of the run" /* WHAT of ranks whose function returned */

/* Ranks that wait for the same. */
struct mst_waits_group {
    char what[64], ranks[64];
    uint32_t count;
    bool several; /* agents told of them: `ranks` is not all of them */
};

/* By a reading. */
struct mst_waits_found {
    uint64_t sum;
    uint32_t silent_count;
    bool calls;      /* some have not returned */
    char silent[64]; /* the last of them */
    struct mst_waits_group groups[MST_WAITS_GROUPS];
    unsigned group_count;
    bool more; /* groups than there is room for */
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

    struct mst_waits_found found; /* by the reading that is under way */
    char after[96];
};

/* Client NULL: false. Locks it. At each look in which mst_suspect_waiting counts the ranks that the
 * monitor watches in the generation of `one`. True: the others are such as well; `text` says for
 * what they wait: "any of them, as all wait: ranks 0, 1 wait in barrier 'a', rank 2 waits in
 * barrier 'b'", "not one call of muster by rank 2 in this attempt, all others wait: ...". */
bool mst_waits_look(struct mst_waits *waits, muster_client *client,
                    const struct mst_monitor *monitor, const struct mst_watched *one,
                    uint64_t now_ns, char *text, size_t room);

#endif
